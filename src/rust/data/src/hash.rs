//! A quick hash for tables in memory. Equal input has the same hash in every session and on every machine.

/// Collects what is hashed.
#[derive(Debug, Clone, Copy)]
pub struct Mixer(u64);

impl Default for Mixer {
    fn default() -> Self {
        Mixer(0x243f_6a88_85a3_08d3)
    }
}

impl Mixer {
    #[inline]
    pub fn word(&mut self, word: u64) {
        // Multiplies to 128 bits and folds them, so that each bit of the input affects all bits.
        let product = u128::from(self.0 ^ word.rotate_left(32)) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product >> 64) as u64 ^ product as u64 ^ self.0.rotate_left(23);
    }

    /// Hashes the bytes and their number.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.split_at(bytes.len() / 8 * 8);
        for word in words.chunks_exact(8) {
            self.word(word.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)));
        }
        let last = rest.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
        self.word(last);
        self.word(bytes.len() as u64);
    }

    #[inline]
    pub fn finish(mut self) -> u64 {
        self.word(0);
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn similar_input_has_different_hashes() {
        let hash = |bytes: &[u8]| {
            let mut mixer = Mixer::default();
            mixer.bytes(bytes);
            mixer.finish()
        };
        let mut seen = HashSet::new();
        for len in 0..20 {
            assert!(seen.insert(hash(&vec![0; len])));
            for at in 0..len {
                for bit in 0..8 {
                    let mut bytes = vec![0; len];
                    bytes[at] = 1 << bit;
                    assert!(seen.insert(hash(&bytes)), "byte {at} of {len}");
                }
            }
        }
        assert_eq!(hash(b"abc"), hash(b"abc"));
    }

    #[test]
    fn the_order_of_words_counts() {
        let hash = |words: &[u64]| {
            let mut mixer = Mixer::default();
            words.iter().for_each(|&word| mixer.word(word));
            mixer.finish()
        };
        let mut seen = HashSet::new();
        for a in 0..100 {
            for b in 0..100 {
                assert!(seen.insert(hash(&[a, b])), "{a}, {b}");
            }
        }
    }
}

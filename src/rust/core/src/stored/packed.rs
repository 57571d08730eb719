//! Elements narrower than a byte: two share a byte in a file, the first in the low bits; on the host each has its own
//! byte.

/// Writes the elements of `packed` one per byte.
pub(crate) fn unpack(packed: &[u8], out: &mut [u8]) {
    for (pair, &byte) in out.chunks_exact_mut(2).zip(packed) {
        pair.copy_from_slice(&[byte & 0x0f, byte >> 4]);
    }
}

/// Writes the elements of `elements`, an even number, two per byte.
pub(crate) fn pack(elements: &[u8], out: &mut [u8]) {
    for (pair, byte) in elements.chunks_exact(2).zip(out) {
        *byte = pair[0] & 0x0f | pair[1] << 4;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_two_elements_lies_in_the_low_bits() {
        let mut elements = [0; 4];
        unpack(&[0x21, 0xf3], &mut elements);
        assert_eq!(elements, [1, 2, 3, 15]);
        let mut packed = [0; 2];
        pack(&elements, &mut packed);
        assert_eq!(packed, [0x21, 0xf3]);
    }
}

//! The nesting depth of things that refer to each other by number.

/// The depth of the most deeply nested of `count` things; `references` returns the things that one contains. Does not
/// recurse.
///
/// # Errors
/// The errors of `references`, and `cycle` if a thing contains itself.
pub fn deepest<E>(
    count: usize,
    mut references: impl FnMut(usize) -> Result<Vec<usize>, E>,
    cycle: impl FnOnce() -> E,
) -> Result<usize, E> {
    // Zero while it is being measured.
    let mut depths = vec![None; count];
    let mut deepest = 0;
    // The things being measured, their remaining references, and the depth of those so far.
    let mut open: Vec<(usize, Vec<usize>, usize)> = Vec::new();
    for start in 0..count {
        let mut next = Some(start);
        loop {
            if let Some(thing) = next.take() {
                match depths[thing] {
                    Some(0) => return Err(cycle()),
                    Some(depth) => note(&mut open, depth),
                    None => {
                        depths[thing] = Some(0);
                        open.push((thing, references(thing)?, 0));
                    }
                }
            }
            let Some((thing, left, below)) = open.last_mut() else { break };
            next = left.pop();
            if next.is_none() {
                let depth = *below + 1;
                depths[*thing] = Some(depth);
                deepest = deepest.max(depth);
                open.pop();
                note(&mut open, depth);
            }
        }
    }
    Ok(deepest)
}

fn note(open: &mut [(usize, Vec<usize>, usize)], depth: usize) {
    if let Some((_, _, below)) = open.last_mut() {
        *below = depth.max(*below);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Cycle;

    fn of(things: &[&[usize]]) -> Result<usize, Cycle> {
        deepest(things.len(), |thing| Ok(things[thing].to_vec()), || Cycle)
    }

    #[test]
    fn the_longest_way_counts() {
        assert_eq!(of(&[]), Ok(0));
        assert_eq!(of(&[&[], &[]]), Ok(1));
        assert_eq!(of(&[&[1, 2], &[2, 2], &[3], &[]]), Ok(4));
        let chain = |i| Ok(if i > 0 { vec![i - 1] } else { Vec::new() });
        assert_eq!(deepest(100_000, chain, || Cycle), Ok(100_000));
    }

    #[test]
    fn cycles_are_found() {
        assert_eq!(of(&[&[0]]), Err(Cycle));
        assert_eq!(of(&[&[1], &[2], &[1]]), Err(Cycle));
    }
}

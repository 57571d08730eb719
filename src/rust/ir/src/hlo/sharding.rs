//! The shardings of a partitioned program's arrays: the part of an array that each partition has.

use crate::hlo::{HloModuleProto, OpSharding};
use crate::module::annotations::{Annotations, Array};
use crate::module::mesh::MAX_DEVICES;
use pjrt_data::array::Spec;
use pjrt_data::layout;
use std::ops::Range;
use std::sync::Arc;

/// XLA's kinds of shardings.
const REPLICATED: i32 = 0;
const MAXIMAL: i32 = 1;
const TUPLE: i32 = 2;
pub(super) const OTHER: i32 = 3;

/// The sharding of one array over the partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sharding {
    /// The sharding in HLO text.
    pub words: String,
    /// Dimensions of the whole array.
    pub whole: Box<[i64]>,
    /// Dimensions of a part, equal for all partitions; the last parts may extend beyond the array.
    pub part: Box<[i64]>,
    /// The number of tiles along each dimension, at least one.
    tiles: Box<[i64]>,
    /// For each partition the number of its tile, in row-major order.
    places: Box<[usize]>,
    /// The only partition that has the array.
    owner: Option<usize>,
}

impl Sharding {
    /// Reads a sharding for `partitions` partitions, whose parts have these dimensions; `whole` are the array's, if
    /// known. `None` if the sharding does not determine the parts.
    fn new(proto: &OpSharding, partitions: usize, part: &[i64], whole: Option<&[i64]>) -> Option<Sharding> {
        if proto.named.is_some() {
            return Sharding::new(&proto.tiled()?, partitions, part, whole);
        }
        let (tiles, places, owner) = match proto.kind {
            REPLICATED => (vec![1; part.len()], vec![0; partitions], None),
            MAXIMAL => {
                let owner = usize::try_from(*proto.tile_devices.first()?).ok().filter(|&owner| owner < partitions)?;
                (vec![1; part.len()], vec![0; partitions], Some(owner))
            }
            OTHER => {
                let tiles = proto.tile_dims.get(..part.len())?.to_vec();
                (tiles, places(proto, partitions, part.len())?, None)
            }
            _ => return None,
        };
        let fits = |whole: &&[i64]| {
            let size_of_part = |(whole, tiles): (&i64, &i64)| whole / tiles + i64::from(whole % tiles != 0);
            whole.len() == part.len() && whole.iter().zip(&tiles).map(size_of_part).eq(part.iter().copied())
        };
        let whole = match whole.filter(fits) {
            Some(whole) => whole.into(),
            None => part.iter().zip(&tiles).map(|(part, tiles)| part.checked_mul(*tiles)).collect::<Option<_>>()?,
        };
        let (part, tiles, places) = (part.into(), tiles.into(), places.into());
        Some(Sharding { words: proto.text(), whole, part, tiles, places, owner })
    }

    /// The part of the whole array that a partition has, along each dimension.
    pub fn part_of(&self, partition: usize) -> Vec<Range<i64>> {
        let mut rest = self.places.get(partition).copied().unwrap_or(0) as i64;
        let mut ranges = vec![0..0; self.tiles.len()];
        for (dim, range) in ranges.iter_mut().enumerate().rev() {
            let (tiles, whole, part) = (self.tiles[dim], self.whole[dim], self.part[dim]);
            let start = (rest % tiles).saturating_mul(part).min(whole);
            *range = start..start.saturating_add(part).min(whole);
            rest /= tiles;
        }
        ranges
    }

    /// A text that is the same for all shardings whose partitions have the same parts.
    pub fn division(&self) -> String {
        let owner = self.owner.map_or_else(String::new, |owner| format!(" on {owner}"));
        format!("{:?} in {:?}, {:?} at {:?}{owner}", self.whole, self.part, self.tiles, self.places)
    }

    /// Whether a partition is the first of those with the same part.
    pub fn is_first(&self, partition: usize) -> bool {
        let place = self.places.get(partition);
        let first = || self.places.iter().position(|other| Some(other) == place);
        self.owner.or_else(first) == Some(partition)
    }
}

/// The number of the tile of each partition, for an array of this rank. Dimensions beyond the array's rank are devices
/// with the same tile.
fn places(proto: &OpSharding, partitions: usize, rank: usize) -> Option<Vec<usize>> {
    // Only the program knows the parts of devices that it shards manually.
    let are_copies = proto.last_tile_dims.iter().all(|&kind| kind == REPLICATED);
    let copies = if proto.replicate_on_last_tile_dim { 1 } else { proto.last_tile_dims.len() };
    let is_whole = are_copies && proto.tile_dims.len() == rank + copies && product(&proto.tile_dims)? == partitions;
    let devices = match proto.iota_reshape_dims.as_slice() {
        [] => proto.tile_devices.clone(),
        dims => iota(dims, &proto.iota_transpose_perm)?,
    };
    if !is_whole || devices.len() != partitions {
        return None;
    }
    let each = product(&proto.tile_dims[rank..])?;
    let mut places = vec![None; partitions];
    for (position, &device) in devices.iter().enumerate() {
        *places.get_mut(usize::try_from(device).ok()?)? = Some(position / each);
    }
    places.into_iter().collect()
}

/// The product of dimensions that are all at least one.
pub(super) fn product(dims: &[i64]) -> Option<usize> {
    dims.iter().try_fold(1usize, |product, &dim| product.checked_mul(usize::try_from(dim).ok().filter(|&dim| dim > 0)?))
}

/// The numbers of devices from 0, reshaped, transposed, and read row by row. `None` if they are damaged or too many to be listed.
pub(super) fn iota(dims: &[i64], order: &[i32]) -> Option<Vec<i64>> {
    let order: Vec<i64> = match order {
        [] => (0..dims.len() as i64).collect(),
        order => order.iter().map(|&dim| dim.into()).collect(),
    };
    if product(dims)? > MAX_DEVICES as usize || !layout::is_permutation(&order, dims.len()) {
        return None;
    }
    let strides = layout::row_major(dims);
    let along = |found: Vec<i64>, dim: i64| {
        let (size, stride) = (dims[dim as usize], strides[dim as usize] as i64);
        found.iter().flat_map(|start| (0..size).map(move |i| start + i * stride)).collect()
    };
    Some(order.into_iter().fold(vec![0], along))
}

/// The shardings of a program's inputs and outputs; `None` for arrays without one, or if it is not known.
#[derive(Debug, Default)]
pub struct Shardings {
    pub inputs: Vec<Option<Sharding>>,
    pub outputs: Vec<Option<Sharding>>,
}

impl Shardings {
    /// Reads the shardings that a compiler has recorded in a partitioned program.
    pub fn read(
        module: &HloModuleProto,
        partitions: usize,
        wholes: &Wholes,
        inputs: &[Arc<Spec>],
        outputs: &[Arc<Spec>],
    ) -> Shardings {
        if partitions < 2 {
            return Shardings::default();
        }
        let (parameters, result) = module.shardings();
        let results = match result {
            Some(tuple) if tuple.kind == TUPLE => tuple.tuple_shardings.as_slice(),
            Some(one) => std::slice::from_ref(one),
            None => &[],
        };
        let read = |protos: &[OpSharding], specs: &[Arc<Spec>], wholes: &[Dims]| {
            // A list of another length has another meaning.
            let proto = |i: usize| protos.get(i).filter(|_| protos.len() == specs.len());
            let whole = |i: usize| wholes.get(i).filter(|dims| dims.is_known).map(|dims| dims.dims.as_slice());
            let one = |(i, spec): (usize, &Arc<Spec>)| Sharding::new(proto(i)?, partitions, &spec.dims, whole(i));
            specs.iter().enumerate().map(one).collect()
        };
        Shardings { inputs: read(parameters, inputs, &wholes.inputs), outputs: read(results, outputs, &wholes.outputs) }
    }
}

messages! {
    /// Dimensions of the whole inputs and outputs of a program.
    struct Wholes {
        inputs: Vec<Dims> = 1 repeated message,
        outputs: Vec<Dims> = 2 repeated message,
    }

    struct Dims {
        dims: Vec<i64> = 1 repeated int64,
        is_known: bool = 2 bool,
    }
}

impl Wholes {
    /// The dimensions in a partitioned program's annotations.
    pub fn of(program: &Annotations) -> Wholes {
        let dims =
            |array: &Array| Dims { dims: array.dims.clone().unwrap_or_default(), is_known: array.dims.is_some() };
        let all = |arrays: &Option<Vec<Array>>| arrays.iter().flatten().map(dims).collect();
        Wholes { inputs: all(&program.inputs), outputs: all(&program.outputs) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiled(tile_dims: &[i64], reshape: &[i64], order: &[i32], replicates: bool) -> OpSharding {
        OpSharding {
            kind: OTHER,
            tile_dims: tile_dims.into(),
            iota_reshape_dims: reshape.into(),
            iota_transpose_perm: order.into(),
            replicate_on_last_tile_dim: replicates,
            ..Default::default()
        }
    }

    fn starts(sharding: &Sharding, partitions: usize) -> Vec<Vec<i64>> {
        (0..partitions).map(|p| sharding.part_of(p).iter().map(|range| range.start).collect()).collect()
    }

    #[test]
    fn tiles_follow_the_given_device_order() {
        let sharding = Sharding::new(&tiled(&[2, 2], &[4], &[], false), 4, &[4, 2], None).unwrap();
        assert_eq!((&*sharding.whole, sharding.words.as_str()), (&[8, 4][..], "devices=[2,2]<=[4]"));
        assert_eq!(starts(&sharding, 4), [[0, 0], [0, 2], [4, 0], [4, 2]]);
        assert_eq!(sharding.part_of(3), [4..8, 2..4]);
        let turned = Sharding::new(&tiled(&[2, 2], &[2, 2], &[1, 0], false), 4, &[4, 2], None).unwrap();
        assert_eq!(starts(&turned, 4), [[0, 0], [4, 0], [0, 2], [4, 2]]);
        let listed = OpSharding { tile_devices: vec![3, 1, 0, 2], ..tiled(&[4], &[], &[], false) };
        let listed = Sharding::new(&listed, 4, &[1], None).unwrap();
        assert_eq!(starts(&listed, 4), [[2], [1], [3], [0]]);
        // A mesh of 2x2x2, turned about: device 4i + 2j + k has tile 2k + i, and j is another's copy.
        let mesh = Sharding::new(&tiled(&[4, 2], &[2, 2, 2], &[2, 0, 1], true), 8, &[2], None).unwrap();
        assert_eq!(starts(&mesh, 8), [[0], [4], [0], [4], [2], [6], [2], [6]]);
        assert_eq!(
            (0..8).map(|p| mesh.is_first(p)).collect::<Vec<_>>(),
            [true, true, false, false, true, true, false, false]
        );
    }

    #[test]
    fn copies_and_parts_are_distinguished() {
        let copies = Sharding::new(&tiled(&[1, 2, 2], &[2, 2], &[1, 0], true), 4, &[4, 3], None).unwrap();
        assert_eq!(starts(&copies, 4), [[0, 0], [0, 3], [0, 0], [0, 3]]);
        assert_eq!((0..4).map(|p| copies.is_first(p)).collect::<Vec<_>>(), [true, true, false, false]);
        let subgroups = OpSharding { last_tile_dims: vec![REPLICATED], ..tiled(&[2, 2], &[4], &[], false) };
        assert_eq!(starts(&Sharding::new(&subgroups, 4, &[3], None).unwrap(), 4), [[0], [0], [3], [3]]);
        let whole = Sharding::new(&OpSharding::default(), 4, &[5, 2], None).unwrap();
        assert_eq!((whole.words.as_str(), whole.part_of(3)), ("replicated", vec![0..5, 0..2]));
        let maximal = OpSharding { kind: MAXIMAL, tile_devices: vec![2], ..Default::default() };
        let maximal = Sharding::new(&maximal, 4, &[5], None).unwrap();
        assert_eq!((0..4).map(|p| maximal.is_first(p)).collect::<Vec<_>>(), [false, false, true, false]);
        assert_eq!((maximal.part_of(0)[0].start, maximal.part_of(0)[0].end), (0, 5));
        assert_eq!(Sharding::new(&OpSharding::default(), 2, &[], None).unwrap().part_of(1), []);
    }

    #[test]
    fn parts_of_unequal_size_end_with_the_array() {
        let proto = tiled(&[4], &[4], &[], false);
        let sharding = Sharding::new(&proto, 4, &[2], Some(&[5])).unwrap();
        let parts: Vec<_> = (0..4).map(|p| sharding.part_of(p)[0].clone()).collect();
        assert_eq!(parts, [0..2, 2..4, 4..5, 5..5]);
        // Dimensions that do not match the parts are ignored.
        assert_eq!(&*Sharding::new(&proto, 4, &[2], Some(&[9])).unwrap().whole, [8]);
        assert_eq!(&*Sharding::new(&proto, 4, &[2], Some(&[4, 2])).unwrap().whole, [8]);
    }

    #[test]
    fn shardings_without_known_placement_are_not_reported() {
        let manual = OpSharding { last_tile_dims: vec![4], ..tiled(&[2, 2], &[4], &[], false) };
        for proto in [
            OpSharding { kind: 4, ..Default::default() },
            OpSharding { kind: 5, ..Default::default() },
            OpSharding { kind: MAXIMAL, ..Default::default() },
            OpSharding { kind: MAXIMAL, tile_devices: vec![4], ..Default::default() },
            manual,
            tiled(&[2], &[2], &[], false),
            tiled(&[4], &[2, 2], &[0, 2], false),
            tiled(&[4], &[2, 2], &[0, 0], false),
            tiled(&[-4], &[4], &[], false),
            tiled(&[2, 2], &[4], &[], false),
            tiled(&[i64::MAX, i64::MAX], &[4], &[], true),
            OpSharding { tile_devices: vec![0, 1, 1, 2], ..tiled(&[4], &[], &[], false) },
            OpSharding { tile_devices: vec![0, 1, 2, 4], ..tiled(&[4], &[], &[], false) },
            OpSharding { tile_devices: vec![0, 1, 2], ..tiled(&[4], &[], &[], false) },
        ] {
            assert_eq!(Sharding::new(&proto, 4, &[2], None), None, "{proto:?}");
        }
    }
}

//! The groups of devices of collective operations, and shardings along the axes of meshes, with their messages.

use super::sharding::{iota, product, OTHER};
use super::{HloInstructionProto, IotaReplicaGroupList, OpSharding};
use crate::module::mesh::{Axis, Mesh, MAX_DEVICES};

messages! {
    /// Devices in an array whose dimensions have names and sizes.
    struct MeshProto {
        axes: Vec<MeshAxis> = 1 repeated message,
        device_ids: Vec<i64> = 2 repeated int64,
        iota_transform: Option<IotaTransform> = 3 optional message,
    }

    struct MeshAxis {
        name: String = 1 string,
        size: i64 = 2 int64,
    }

    /// The devices of a mesh as a rearranged range of numbers.
    struct IotaTransform {
        reshape_dims: Vec<i64> = 1 repeated int64,
        transpose_perm: Vec<i32> = 2 repeated int32,
    }

    /// An axis of a mesh, or part of one.
    struct AxisRef {
        index: i64 = 1 int64,
        part: Option<SubAxis> = 2 optional message,
    }

    struct SubAxis {
        pre_size: i64 = 1 int64,
        size: i64 = 2 int64,
    }

    /// Replica groups as the devices along some axes of a mesh.
    struct MeshAxesReplicaGroupList {
        mesh: Option<MeshProto> = 1 optional message,
        axes: Vec<AxisRef> = 2 repeated message,
    }

    /// A sharding along axes of a mesh.
    struct NamedSharding {
        mesh: Option<MeshProto> = 2 optional message,
        dims: Vec<DimensionSharding> = 3 repeated message,
        unreduced_axes: Vec<AxisRef> = 5 repeated message,
        manual_axes: Vec<AxisRef> = 7 repeated message,
    }

    struct DimensionSharding {
        axes: Vec<AxisRef> = 1 repeated message,
    }
}

impl HloInstructionProto {
    /// The groups of a collective operation: none where all devices are one group. `None` if they are damaged.
    pub(super) fn groups(&self) -> Option<Vec<Vec<i64>>> {
        if let Some(list) = &self.mesh_axes_replica_group_list {
            return list.mesh.as_ref()?.read()?.groups(&read_axes(&list.axes)?);
        }
        if let Some(range) = self.range_of_groups() {
            let each = usize::try_from(range.num_devices_per_group).ok().filter(|&each| each > 0)?;
            let numbers = iota(&range.iota_reshape_dims, &range.iota_transpose_perm)?;
            let is_whole = range.count() == Some(numbers.len() as i64);
            return is_whole.then(|| numbers.chunks(each).map(<[i64]>::to_vec).collect());
        }
        let listed = self.collective_device_list.as_ref().map_or(&self.replica_groups, |list| &list.replica_groups);
        Some(listed.iter().map(|group| group.replica_ids.clone()).filter(|group| !group.is_empty()).collect())
    }

    /// The numbers of devices that a collective operation names, or the highest alone if they are too many to be listed. That
    /// is the highest of all numbers for damaged groups.
    pub(super) fn devices(&self) -> Vec<i64> {
        let of_pairs = self.source_target_pairs.iter().flat_map(|pair| [pair.source, pair.target]);
        let highest = || vec![vec![self.count_of_groups().map_or(i64::MAX, |count| count - 1)]];
        self.groups().unwrap_or_else(highest).into_iter().flatten().chain(of_pairs).collect()
    }

    /// The number of devices in groups that are too many to be listed.
    fn count_of_groups(&self) -> Option<i64> {
        let (dims, count) = match (&self.mesh_axes_replica_group_list, self.range_of_groups()) {
            (Some(list), _) => (list.mesh.as_ref()?.axes.iter().map(|axis| axis.size).collect(), None),
            (None, Some(range)) => (range.iota_reshape_dims.clone(), Some(range.count()?)),
            (None, None) => return None,
        };
        let size = product(&dims).and_then(|size| i64::try_from(size).ok()).filter(|&size| size > MAX_DEVICES)?;
        count.is_none_or(|count| count == size).then_some(size)
    }

    /// The groups as a rearranged range of numbers, if they are one.
    pub(super) fn range_of_groups(&self) -> Option<&IotaReplicaGroupList> {
        let devices = self.collective_device_list.as_ref();
        self.iota_collective_device_list.as_ref().or(devices.and_then(|devices| devices.iota.as_ref()))
    }
}

impl IotaReplicaGroupList {
    fn count(&self) -> Option<i64> {
        self.num_replica_groups.checked_mul(self.num_devices_per_group)
    }
}

impl OpSharding {
    /// A sharding along axes of a mesh, as tiles. `None` if only the program knows the parts of some devices.
    pub(super) fn tiled(&self) -> Option<OpSharding> {
        let NamedSharding { mesh, dims, unreduced_axes, manual_axes } = self.named.as_ref()?;
        if !unreduced_axes.is_empty() || !manual_axes.is_empty() {
            return None;
        }
        let mesh = mesh.as_ref()?.read()?;
        let axes = dims.iter().map(|dim| read_axes(&dim.axes)).collect::<Option<Vec<_>>>()?;
        let size = |axes: &Vec<Axis>| axes.iter().try_fold(1i64, |size, &axis| size.checked_mul(mesh.extent(axis)?));
        let mut tile_dims = axes.iter().map(size).collect::<Option<Vec<_>>>()?;
        // each group has a device for each tile, and there is a group for each copy
        let copies = mesh.groups(&axes.concat())?;
        tile_dims.push(copies.len() as i64);
        let tiles = 0..copies.first()?.len();
        Some(OpSharding {
            kind: OTHER,
            tile_dims,
            tile_devices: tiles.flat_map(|tile| copies.iter().map(move |copy| copy[tile])).collect(),
            replicate_on_last_tile_dim: true,
            ..Default::default()
        })
    }
}

impl MeshProto {
    fn read(&self) -> Option<Mesh> {
        let axes: Vec<_> = self.axes.iter().map(|axis| (axis.name.clone(), axis.size)).collect();
        let devices = match &self.iota_transform {
            Some(range) => iota(&range.reshape_dims, &range.transpose_perm)?,
            None => self.device_ids.clone(),
        };
        Mesh::new(axes, devices)
    }
}

fn read_axes(axes: &[AxisRef]) -> Option<Vec<Axis>> {
    let read = |axis: &AxisRef| {
        let part = axis.part.as_ref().map(|part| (part.pre_size, part.size));
        Some((usize::try_from(axis.index).ok()?, part))
    };
    axes.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mesh(sizes: &[i64]) -> MeshProto {
        let axes = sizes.iter().map(|&size| MeshAxis { name: format!("axis_{size}"), size }).collect();
        MeshProto { axes, ..Default::default() }
    }

    fn axis(index: i64) -> AxisRef {
        AxisRef { index, part: None }
    }

    #[test]
    fn groups_may_be_along_axes_of_a_mesh() {
        let groups = |mesh: MeshProto, axes: Vec<AxisRef>| {
            let list = MeshAxesReplicaGroupList { mesh: Some(mesh), axes };
            HloInstructionProto { mesh_axes_replica_group_list: Some(list), ..Default::default() }.groups()
        };
        assert_eq!(groups(mesh(&[2, 3]), vec![axis(1)]).unwrap(), [[0, 1, 2], [3, 4, 5]]);
        assert_eq!(groups(mesh(&[2, 3]), vec![axis(0)]).unwrap(), [[0, 3], [1, 4], [2, 5]]);
        let part = AxisRef { index: 0, part: Some(SubAxis { pre_size: 2, size: 2 }) };
        assert_eq!(groups(mesh(&[4]), vec![part]).unwrap(), [[0, 1], [2, 3]]);
        let turned = IotaTransform { reshape_dims: vec![2, 2], transpose_perm: vec![1, 0] };
        let turned = MeshProto { iota_transform: Some(turned), ..mesh(&[2, 2]) };
        assert_eq!(groups(turned, vec![axis(1)]).unwrap(), [[0, 2], [1, 3]]);
        for (mesh, axes) in
            [(mesh(&[2]), vec![axis(1)]), (mesh(&[1 << 40]), vec![axis(0)]), (mesh(&[2]), vec![axis(-1)])]
        {
            assert_eq!(groups(mesh, axes), None);
        }
    }

    #[test]
    fn groups_of_many_devices_have_their_highest_number() {
        let of_range = |count: i64, dims: Vec<i64>| {
            let iota_collective_device_list = Some(IotaReplicaGroupList {
                num_replica_groups: 2,
                num_devices_per_group: count / 2,
                iota_reshape_dims: dims,
                iota_transpose_perm: Vec::new(),
            });
            HloInstructionProto { iota_collective_device_list, ..Default::default() }.devices()
        };
        assert_eq!(of_range(4, vec![4]), [0, 1, 2, 3]);
        assert_eq!(of_range(1 << 21, vec![2, 1 << 20]), [(1 << 21) - 1]);
        // Groups that do not match their range, and a range that is longer than any.
        assert_eq!(of_range(1 << 21, vec![1 << 20]), [i64::MAX]);
        assert_eq!(of_range(1 << 21, vec![i64::MAX, 2]), [i64::MAX]);
        let list = MeshAxesReplicaGroupList { mesh: Some(mesh(&[2, 1 << 20])), axes: vec![axis(0)] };
        let along = HloInstructionProto { mesh_axes_replica_group_list: Some(list), ..Default::default() };
        assert_eq!(along.devices(), [(1 << 21) - 1]);
    }

    #[test]
    fn shardings_along_axes_are_tiles() {
        let dims = [vec![axis(1)], vec![]].map(|axes| DimensionSharding { axes }).into();
        let named = NamedSharding { mesh: Some(mesh(&[2, 3])), dims, ..Default::default() };
        let sharding = OpSharding { named: Some(named.clone()), ..Default::default() };
        assert_eq!(sharding.text(), "devices=[3,1,2]0,3,1,4,2,5 last_tile_dim_replicate");
        let manual = NamedSharding { manual_axes: vec![axis(0)], ..named };
        assert_eq!(OpSharding { named: Some(manual), ..Default::default() }.text(), "unknown");
    }
}

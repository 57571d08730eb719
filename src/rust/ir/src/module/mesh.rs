//! Meshes of devices in text, and the groups of devices along their axes.

use memchr::memmem;

/// The start of an attribute that names groups of devices by axes of a mesh. It is newer than lists of devices.
pub const GROUPS: &str = "#stablehlo.replica_group_mesh_axes<";

/// XLA has fewer devices.
pub const MAX_DEVICES: i64 = 1 << 20;

#[derive(Debug, Clone, PartialEq)]
pub struct Mesh {
    axes: Vec<(String, i64)>,
    /// Empty if they are numbered in order.
    devices: Vec<i64>,
}

/// The number of an axis and, of part of an axis, the size of what is before it in the axis, and its own size.
pub type Axis = (usize, Option<(i64, i64)>);

impl Mesh {
    /// Reads `["x"=2, "y"=3], device_ids=[..]` or `axes = [#stablehlo.mesh_axis<name = "x", size = 2>], device_ids = ..`,
    /// with what may be around it.
    pub fn parse(text: &str) -> Option<Mesh> {
        let (axes, rest) = match text.find("device_ids") {
            Some(at) => text.split_at(at),
            None => (text, ""),
        };
        let axis =
            |(name, after): (&str, &str)| Some((name.to_owned(), number(after.split_once('=')?.1.trim_start())?));
        Mesh::new(names(axes)?.into_iter().map(axis).collect::<Option<_>>()?, numbers(rest))
    }

    /// A mesh of these axes and devices.
    pub fn new(axes: Vec<(String, i64)>, devices: Vec<i64>) -> Option<Mesh> {
        let mesh = Mesh { axes, devices };
        let size = mesh.size()?;
        let is_complete = mesh.devices.is_empty() || mesh.devices.len() as i64 == size;
        is_complete.then_some(mesh)
    }

    /// The number of devices along an axis.
    pub fn extent(&self, (axis, part): Axis) -> Option<i64> {
        Some(part.map_or(self.axes.get(axis)?.1, |(_, size)| size))
    }

    fn size(&self) -> Option<i64> {
        let size = self.axes.iter().try_fold(1i64, |product, (_, size)| product.checked_mul(*size))?;
        (1..=MAX_DEVICES).contains(&size).then_some(size)
    }

    /// The groups of devices that differ only in these axes. The last axis varies fastest.
    pub fn groups(&self, axes: &[Axis]) -> Option<Vec<Vec<i64>>> {
        // The mesh as smaller axes, including parts of axes: size, distance of neighbours, place in a group.
        let mut pieces: Vec<(i64, i64, Option<usize>)> = Vec::new();
        let mut distance = self.size()?;
        if axes.iter().any(|(axis, _)| *axis >= self.axes.len()) {
            return None;
        }
        for (number, (_, size)) in self.axes.iter().enumerate() {
            let own = axes.iter().enumerate().filter(|(_, (axis, _))| *axis == number);
            let part = |(place, (_, part)): (_, &Axis)| (part.unwrap_or((1, *size)), place);
            let mut parts: Vec<((i64, i64), usize)> = own.map(part).collect();
            parts.sort_unstable();
            let mut done = 1;
            let mut add = |size: i64, place| {
                distance /= size;
                pieces.push((size, distance, place));
            };
            for ((before, own), place) in parts {
                if before < done || before % done != 0 || own < 1 || size % before.checked_mul(own)? != 0 {
                    return None;
                }
                add(before / done, None);
                add(own, Some(place));
                done = before * own;
            }
            if size % done != 0 {
                return None;
            }
            add(size / done, None);
        }
        let offsets = |pieces: &[(i64, i64, Option<usize>)]| {
            let mut found = vec![0];
            for &(size, distance, _) in pieces {
                found = found.iter().flat_map(|start| (0..size).map(move |i| start + i * distance)).collect();
            }
            found
        };
        let (outer, mut inner): (Vec<_>, Vec<_>) = pieces.into_iter().partition(|(.., place)| place.is_none());
        inner.sort_by_key(|(.., place)| *place);
        let device = |number: i64| self.devices.get(number as usize).copied().unwrap_or(number);
        let members = offsets(&inner);
        let group = |start: i64| members.iter().map(|offset| device(start + offset)).collect();
        Some(offsets(&outer).into_iter().map(group).collect())
    }
}

/// An attribute in text that names groups of devices by axes, as the list of the groups' devices: `dense<..> : tensor<..>`.
/// `mesh` finds the text of a mesh by its name.
pub fn explicit_groups<'a>(attribute: &'a str, mesh: impl Fn(&str) -> Option<&'a str>) -> Option<String> {
    let content = attribute.strip_prefix(GROUPS)?.strip_suffix('>')?.trim();
    let content = content.strip_prefix("mesh")?.trim_start().strip_prefix('=')?.trim_start();
    let at = memmem::rfind(content.as_bytes(), b"axes = [")?;
    let (mesh_text, axes_text) = content.split_at(at);
    let mesh = match mesh_text.strip_prefix('@') {
        Some(name) => Mesh::parse(mesh(name.trim_end_matches([' ', ',']).trim_matches('"'))?)?,
        None => Mesh::parse(mesh_text)?,
    };
    let mut axes = Vec::new();
    for (name, after) in names(axes_text)? {
        let part = match after.split_once("sub_axis_info").map(|(_, part)| numbers(part)) {
            Some(numbers) => Some((*numbers.first()?, *numbers.get(1)?)),
            None => None,
        };
        axes.push((mesh.axes.iter().position(|(own, _)| own == name)?, part));
    }
    let groups = mesh.groups(&axes)?;
    let size = groups.first()?.len();
    Some(format!("dense<{groups:?}> : tensor<{}x{size}xi64>", groups.len()))
}

/// The names in quotes, each with the text up to the next one.
fn names(text: &str) -> Option<Vec<(&str, &str)>> {
    let parts: Vec<_> = text.split('"').skip(1).collect();
    parts.chunks(2).map(|part| Some((part[0], *part.get(1)?))).collect()
}

/// The number at the start of a text.
fn number(text: &str) -> Option<i64> {
    text.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// The numbers in a text, up to a type.
fn numbers(text: &str) -> Vec<i64> {
    let text = text.split(" : ").next().unwrap_or(text);
    text.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(mesh: &str, axes: &str) -> Option<String> {
        let attribute = format!("{GROUPS}mesh = @m, axes = [{axes}]>");
        explicit_groups(&attribute, |name| (name == "m").then_some(mesh)).map(|text| text.replace(" : tensor", ""))
    }

    #[test]
    fn axes_of_a_mesh_are_groups_of_devices() {
        let axis = |name: &str| format!("#stablehlo.axis_ref<name = \"{name}\">");
        let mesh = r#"<["x"=2, "y"=3]>"#;
        assert_eq!(groups(mesh, &axis("x")).unwrap(), "dense<[[0, 3], [1, 4], [2, 5]]><3x2xi64>");
        assert_eq!(groups(mesh, &axis("y")).unwrap(), "dense<[[0, 1, 2], [3, 4, 5]]><2x3xi64>");
        let both = format!("{}, {}", axis("y"), axis("x"));
        assert_eq!(groups(mesh, &both).unwrap(), "dense<[[0, 3, 1, 4, 2, 5]]><1x6xi64>");
        assert_eq!(groups(mesh, "").unwrap(), "dense<[[0], [1], [2], [3], [4], [5]]><6x1xi64>");
        let part = "#stablehlo.axis_ref<name = \"x\", sub_axis_info = (2)2>";
        assert_eq!(groups(r#"<["x"=8]>"#, part).unwrap(), "dense<[[0, 2], [1, 3], [4, 6], [5, 7]]><4x2xi64>");
        let ordered = r#"<["x"=2, "y"=2], device_ids=[3, 2, 1, 0]>"#;
        assert_eq!(groups(ordered, &axis("y")).unwrap(), "dense<[[3, 2], [1, 0]]><2x2xi64>");
        for (mesh, axes) in
            [(mesh, axis("z")), (r#"<["x"=0]>"#, axis("x")), (r#"<["x"=6]>"#, part.replace("(2)2", "(4)2"))]
        {
            assert_eq!(groups(mesh, &axes), None, "{mesh} {axes}");
        }
    }

    #[test]
    fn a_mesh_may_be_in_the_attribute() {
        let attribute = format!(
            "{GROUPS}mesh = #stablehlo.mesh<axes = [#stablehlo.mesh_axis<name = \"x\", size = 2>], device_ids = dense<[1, 0]> : \
             tensor<2xi64>>, axes = [#stablehlo.axis_ref<name = \"x\">]>"
        );
        assert_eq!(explicit_groups(&attribute, |_| None).unwrap(), "dense<[[1, 0]]> : tensor<1x2xi64>");
    }
}

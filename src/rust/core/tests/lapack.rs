//! The targets of JAX's programs on the real CPU plugin: every factorization gives back the matrix.

mod common;

use common::linear::*;
use pjrt_data::dtype::DType;

const SHAPES: [(usize, usize); 3] = [(4, 4), (5, 3), (3, 5)];

/// One matrix, and a batch of four.
fn stacks(mut one: impl FnMut() -> Matrix) -> [Vec<Matrix>; 2] {
    [vec![one()], (0..4).map(|_| one()).collect()]
}

fn values_of(items: &[Matrix]) -> Vec<Vec<C>> {
    items.iter().map(|item| item.values.clone()).collect()
}

fn for_types(mut check: impl FnMut(DType, char, f64, &mut Random)) {
    for (dtype, letter, precision) in TYPES {
        check(dtype, letter, precision, &mut Random(0x9e37_79b9_7f4a_7c15));
    }
}

#[test]
fn cholesky() {
    for_types(|dtype, letter, precision, random| {
        for (n, uplo) in [(1, 'L'), (4, 'L'), (4, 'U')] {
            for mut xs in stacks(|| random.positive(dtype, n)) {
                let last = xs.len() - 1;
                if last > 0 && n == 4 {
                    xs[last] = Matrix::diagonal(&[(1.0, 0.0), (-1.0, 0.0), (1.0, 0.0), (1.0, 0.0)]);
                }
                let target = format!("lapack_{letter}potrf_ffi");
                let attributes = format!("uplo = {} : ui8", uplo as u8);
                let x_values = values_of(&xs);
                let outputs = [(dtype, &[n, n][..]), (DType::I32, &[])];
                let found = call(&target, &attributes, &[(dtype, &[n, n], &x_values)], &outputs);
                for (i, (x, found)) in xs.iter().zip(&found).enumerate() {
                    if i == last && last > 0 && n == 4 {
                        assert_eq!(found[1].values, [(2.0, 0.0)], "its second pivot is negative");
                        continue;
                    }
                    assert_eq!(found[1].values, [(0.0, 0.0)]);
                    let factor = if uplo == 'L' { found[0].lower() } else { found[0].upper().adjoint() };
                    assert_close(&factor.times(&factor.adjoint()), x, precision);
                }
            }
        }
    });
}

/// The rows of a matrix after LAPACK's exchanges, counted from 1.
fn exchanged(x: &Matrix, pivots: &[C]) -> Matrix {
    let mut rows: Vec<usize> = (0..x.rows).collect();
    pivots.iter().enumerate().for_each(|(i, pivot)| rows.swap(i, pivot.0 as usize - 1));
    Matrix::new(x.rows, x.columns, |i, j| x.at(rows[i], j))
}

/// The product of the factors in one matrix.
fn lu_product(lu: &Matrix) -> Matrix {
    let k = lu.rows.min(lu.columns);
    let lower = lu.only(|i, j| i > j).columns(k).plus(&Matrix::identity(lu.rows).columns(k));
    lower.times(&lu.upper().rows(k))
}

#[test]
fn lu() {
    for_types(|dtype, letter, precision, random| {
        for (m, n) in SHAPES {
            let k = m.min(n);
            for xs in stacks(|| random.matrix(dtype, m, n)) {
                let outputs = [(dtype, &[m, n][..]), (DType::I32, &[k]), (DType::I32, &[])];
                let target = format!("lapack_{letter}getrf_ffi");
                for (x, found) in xs.iter().zip(call(&target, "", &[(dtype, &[m, n], &values_of(&xs))], &outputs)) {
                    assert_close(&lu_product(&found[0]), &exchanged(x, &found[1].values), precision);
                    assert_eq!(found[2].values, [(0.0, 0.0)]);
                }
            }
        }
    });
}

#[test]
fn qr() {
    for_types(|dtype, letter, precision, random| {
        let group = if is_complex(dtype) { "un" } else { "or" };
        for (m, n) in SHAPES {
            let k = m.min(n);
            for xs in stacks(|| random.matrix(dtype, m, n)) {
                let x_values = values_of(&xs);
                let outputs = [(dtype, &[m, n][..]), (dtype, &[k])];
                let packed = call(&format!("lapack_{letter}geqrf_ffi"), "", &[(dtype, &[m, n], &x_values)], &outputs);
                let columns: Vec<_> = packed.iter().map(|item| item[0].columns(k).values.clone()).collect();
                let taus: Vec<_> = packed.iter().map(|item| item[1].values.clone()).collect();
                let reflectors = (dtype, &[m, k][..], &columns[..]);
                let qs = call(
                    &format!("lapack_{letter}{group}gqr_ffi"),
                    "",
                    &[reflectors, (dtype, &[k], &taus)],
                    &[(dtype, &[m, k])],
                );
                for ((x, packed), q) in xs.iter().zip(&packed).zip(&qs) {
                    assert_close(&q[0].times(&packed[0].upper().rows(k)), x, precision);
                    assert_close(&q[0].adjoint().times(&q[0]), &Matrix::identity(k), precision);
                }
                for (left, transpose) in [(true, true), (true, false), (false, true), (false, false)] {
                    let c: Vec<_> = xs
                        .iter()
                        .map(|_| if left { random.matrix(dtype, m, 2) } else { random.matrix(dtype, 2, m) })
                        .collect();
                    let dims = [c[0].rows, c[0].columns];
                    let attributes = format!("left = {left}, transpose = {transpose}");
                    let inputs = [reflectors, (dtype, &[k], &taus), (dtype, &dims, &values_of(&c))];
                    let target = format!("lapack_{letter}{group}mqr_ffi");
                    let found = call(&target, &attributes, &inputs, &[(dtype, &dims)]);
                    for ((c, q), found) in c.iter().zip(&qs).zip(found) {
                        // The first columns of the whole factor are Q's columns.
                        match (left, transpose) {
                            (true, true) => assert_close(&found[0].rows(k), &q[0].adjoint().times(c), precision),
                            (false, false) => assert_close(&found[0].columns(k), &c.times(&q[0]), precision),
                            _ => assert!((found[0].squares() - c.squares()).abs() < 100.0 * precision),
                        }
                    }
                }
            }
        }
    });
}

#[test]
fn qr_with_column_exchanges() {
    for_types(|dtype, letter, precision, random| {
        for (m, n) in SHAPES {
            let k = m.min(n);
            for xs in stacks(|| random.matrix(dtype, m, n)) {
                // The last column comes first.
                let fixed: Vec<Vec<C>> =
                    xs.iter().map(|_| (0..n).map(|j| ((j + 1 == n) as u8 as f64, 0.0)).collect()).collect();
                let inputs = [(dtype, &[m, n][..], &values_of(&xs)[..]), (DType::I32, &[n], &fixed)];
                let outputs = [(dtype, &[m, n][..]), (DType::I32, &[n]), (dtype, &[k])];
                let packed = call(&format!("lapack_{letter}geqp3_ffi"), "", &inputs, &outputs);
                let columns: Vec<_> = packed.iter().map(|item| item[0].columns(k).values.clone()).collect();
                let taus: Vec<_> = packed.iter().map(|item| item[2].values.clone()).collect();
                let group = if is_complex(dtype) { "un" } else { "or" };
                let inputs = [(dtype, &[m, k][..], &columns[..]), (dtype, &[k], &taus)];
                let qs = call(&format!("lapack_{letter}{group}gqr_ffi"), "", &inputs, &[(dtype, &[m, k])]);
                for ((x, packed), q) in xs.iter().zip(&packed).zip(&qs) {
                    let order = &packed[1].values;
                    assert_eq!(order[0].0 as usize, n);
                    let exchanged = Matrix::new(m, n, |i, j| x.at(i, order[j].0 as usize - 1));
                    assert_close(&q[0].times(&packed[0].upper().rows(k)), &exchanged, precision);
                }
            }
        }
    });
}

#[test]
fn singular_values() {
    for_types(|dtype, letter, precision, random| {
        // Without singular vectors, these may have either size.
        let modes = [('A', true), ('S', false), ('N', true), ('N', false)];
        for (routine, (mode, is_full)) in ["gesdd", "gesvd"].into_iter().flat_map(|r| modes.map(|mode| (r, mode))) {
            for (m, n) in SHAPES {
                let k = m.min(n);
                let (u_columns, vt_rows) = if is_full { (m, n) } else { (k, k) };
                for xs in stacks(|| random.matrix(dtype, m, n)) {
                    let outputs = [
                        (dtype, &[m, n][..]),
                        (real_of(dtype), &[k]),
                        (dtype, &[m, u_columns]),
                        (dtype, &[vt_rows, n]),
                        (DType::I32, &[]),
                    ];
                    let target = format!("lapack_{letter}{routine}_ffi");
                    let attributes = format!("mode = {} : ui8", mode as u8);
                    let x_values = values_of(&xs);
                    for (x, found) in
                        xs.iter().zip(call(&target, &attributes, &[(dtype, &[m, n], &x_values)], &outputs))
                    {
                        assert_eq!(found[4].values, [(0.0, 0.0)]);
                        assert!((found[1].squares() - x.squares()).abs() < 100.0 * precision);
                        if mode != 'N' {
                            let (u, s) = (found[2].columns(k), Matrix::diagonal(&found[1].values));
                            assert_close(&u.times(&s).times(&found[3].rows(k)), x, precision);
                            let all = found[2].adjoint().times(&found[2]);
                            assert_close(&all, &Matrix::identity(u_columns), precision);
                        }
                    }
                }
            }
        }
    });
}

#[test]
fn eigenvalues_of_hermitian_matrices() {
    for_types(|dtype, letter, precision, random| {
        let name = if is_complex(dtype) { "heevd" } else { "syevd" };
        for (uplo, mode) in [('L', 'V'), ('U', 'V'), ('L', 'N')] {
            for xs in stacks(|| random.positive(dtype, 5)) {
                // The other triangle is not read.
                let is_read = |i: usize, j: usize| if uplo == 'L' { i >= j } else { i <= j };
                let halves: Vec<_> = xs.iter().map(|x| x.only(is_read).values).collect();
                let attributes = format!("mode = {} : ui8, uplo = {} : ui8", mode as u8, uplo as u8);
                let outputs = [(dtype, &[5, 5][..]), (real_of(dtype), &[5]), (DType::I32, &[])];
                let target = format!("lapack_{letter}{name}_ffi");
                for (x, found) in xs.iter().zip(call(&target, &attributes, &[(dtype, &[5, 5], &halves)], &outputs)) {
                    let w = &found[1].values;
                    assert!(w.windows(2).all(|pair| pair[0].0 <= pair[1].0));
                    assert!((w.iter().map(|w| w.0).sum::<f64>() - x.trace().0).abs() < 10.0 * precision);
                    if mode == 'V' {
                        let product = found[0].times(&Matrix::diagonal(w)).times(&found[0].adjoint());
                        assert_close(&product, x, 10.0 * precision);
                    }
                }
            }
        }
    });
}

#[test]
fn eigenvalues_of_general_matrices() {
    for_types(|dtype, letter, precision, random| {
        let complex = complex_of(dtype);
        for (left, right) in [('V', 'V'), ('N', 'V'), ('N', 'N')] {
            for xs in stacks(|| random.matrix(dtype, 4, 4)) {
                let attributes = format!("compute_left = {} : ui8, compute_right = {} : ui8", left as u8, right as u8);
                let mut outputs = vec![(dtype, &[4][..]), (dtype, &[4]), (complex, &[4, 4]), (complex, &[4, 4])];
                outputs.push((DType::I32, &[]));
                if is_complex(dtype) {
                    outputs.remove(1);
                }
                let target = format!("lapack_{letter}geev_ffi");
                let x_values = values_of(&xs);
                for (x, found) in xs.iter().zip(call(&target, &attributes, &[(dtype, &[4, 4], &x_values)], &outputs)) {
                    let mut w = found[0].values.clone();
                    if !is_complex(dtype) {
                        w.iter_mut().zip(&found[1].values).for_each(|(w, wi)| w.1 = wi.0);
                    }
                    let w = Matrix::diagonal(&w);
                    let (trace, expected) = (w.trace(), x.trace());
                    assert!((trace.0 - expected.0).abs() + (trace.1 - expected.1).abs() < 10.0 * precision);
                    let [vl, vr] = [&found[found.len() - 3], &found[found.len() - 2]];
                    if right == 'V' {
                        assert!(vr.squares() > 3.9);
                    }
                    assert_close(&x.times(vr), &vr.times(&w), 10.0 * precision);
                    assert_close(&vl.adjoint().times(x), &w.times(&vl.adjoint()), 10.0 * precision);
                }
            }
        }
    });
}

#[test]
fn schur() {
    for_types(|dtype, letter, precision, random| {
        for mode in ['V', 'N'] {
            for xs in stacks(|| random.matrix(dtype, 4, 4)) {
                let attributes = format!("mode = {} : ui8, sort = 78 : ui8", mode as u8);
                let mut outputs = vec![(dtype, &[4, 4][..]), (dtype, &[4, 4]), (dtype, &[4]), (dtype, &[4])];
                outputs.extend([(DType::I32, &[][..]), (DType::I32, &[])]);
                if is_complex(dtype) {
                    outputs.remove(3);
                }
                let target = format!("lapack_{letter}gees_ffi");
                let x_values = values_of(&xs);
                for (x, found) in xs.iter().zip(call(&target, &attributes, &[(dtype, &[4, 4], &x_values)], &outputs)) {
                    let triangular = found[0].only(|i, j| i <= j + usize::from(!is_complex(dtype)));
                    assert_close(&triangular, &found[0], precision);
                    assert!((triangular.trace().0 - x.trace().0).abs() < 10.0 * precision);
                    if mode == 'V' {
                        let product = found[1].times(&found[0]).times(&found[1].adjoint());
                        assert_close(&product, x, 10.0 * precision);
                    }
                    assert_eq!(found[found.len() - 2].values, [(0.0, 0.0)]);
                }
            }
        }
    });
}

#[test]
fn reductions() {
    for_types(|dtype, letter, precision, random| {
        for xs in stacks(|| random.matrix(dtype, 4, 4)) {
            let outputs = [(dtype, &[4, 4][..]), (dtype, &[3]), (DType::I32, &[])];
            let target = format!("lapack_{letter}gehrd_ffi");
            let x_values = values_of(&xs);
            let found = call(&target, "high = 4 : i32, low = 1 : i32", &[(dtype, &[4, 4], &x_values)], &outputs);
            for (x, found) in xs.iter().zip(found) {
                let h = found[0].only(|i, j| i <= j + 1);
                assert!((h.trace().0 - x.trace().0).abs() < 10.0 * precision);
                assert!((h.squares() - x.squares()).abs() < 100.0 * precision);
            }
        }
        let name = if is_complex(dtype) { "hetrd" } else { "sytrd" };
        for uplo in ['L', 'U'] {
            for xs in stacks(|| random.positive(dtype, 4)) {
                let real = real_of(dtype);
                let outputs = [(dtype, &[4, 4][..]), (real, &[4]), (real, &[3]), (dtype, &[3]), (DType::I32, &[])];
                let target = format!("lapack_{letter}{name}_ffi");
                let attributes = format!("uplo = {} : ui8", uplo as u8);
                let x_values = values_of(&xs);
                for (x, found) in xs.iter().zip(call(&target, &attributes, &[(dtype, &[4, 4], &x_values)], &outputs)) {
                    let trace: f64 = found[1].values.iter().map(|d| d.0).sum();
                    assert!((trace - x.trace().0).abs() < 10.0 * precision);
                    let squares = found[1].squares() + 2.0 * found[2].squares();
                    assert!((squares - x.squares()).abs() < 1000.0 * precision);
                }
            }
        }
    });
}

#[test]
fn triangular_systems() {
    for_types(|dtype, letter, precision, random| {
        for side in ['L', 'R'] {
            for (uplo, transpose, diag) in [('L', 'N', 'N'), ('U', 'T', 'U'), ('L', 'C', 'N'), ('U', 'N', 'U')] {
                for xs in stacks(|| random.positive(dtype, 3)) {
                    let (m, n) = if side == 'L' { (3, 2) } else { (2, 3) };
                    let ys: Vec<_> = xs.iter().map(|_| random.matrix(dtype, m, n)).collect();
                    let attributes = format!(
                        "diag = {} : ui8, side = {} : ui8, trans_x = {} : ui8, uplo = {} : ui8",
                        diag as u8, side as u8, transpose as u8, uplo as u8
                    );
                    let target = format!("lapack_{letter}trsm_ffi");
                    let inputs = [(dtype, &[3, 3][..], &values_of(&xs)[..]), (dtype, &[m, n], &values_of(&ys))];
                    let found = call(&target, &attributes, &inputs, &[(dtype, &[m, n])]);
                    for ((x, y), found) in xs.iter().zip(&ys).zip(found) {
                        let mut a = if uplo == 'L' { x.lower() } else { x.upper() };
                        if diag == 'U' {
                            a = a.only(|i, j| i != j).plus(&Matrix::identity(3));
                        }
                        let a = match transpose {
                            'T' => a.transposed(),
                            'C' => a.adjoint(),
                            _ => a,
                        };
                        let product = if side == 'L' { a.times(&found[0]) } else { found[0].times(&a) };
                        assert_close(&product, y, 10.0 * precision);
                    }
                }
            }
        }
    });
}

#[test]
fn tridiagonal_systems() {
    for_types(|dtype, letter, precision, random| {
        for n in [1, 4] {
            for bs in stacks(|| random.matrix(dtype, n, 2)) {
                let mut diagonals = [vec![], vec![], vec![]];
                for _ in &bs {
                    diagonals.iter_mut().for_each(|diagonal| diagonal.push(random.matrix(dtype, 1, n).values));
                }
                let [mut dl, d, mut du] = diagonals;
                // Their values outside the matrix are not read.
                dl.iter_mut().for_each(|dl| dl[0] = (f64::NAN, 0.0));
                du.iter_mut().for_each(|du| du[n - 1] = (f64::NAN, 0.0));
                let b = values_of(&bs);
                let vector = (dtype, &[n][..]);
                let inputs = [(dtype, &[n][..], &dl[..]), (dtype, &[n], &d), (dtype, &[n], &du), (dtype, &[n, 2], &b)];
                let outputs = [vector, vector, vector, (dtype, &[n, 2]), (DType::I32, &[])];
                let exact = call(&format!("lapack_{letter}gtsv_ffi"), "", &inputs, &outputs);
                let perturbed = call("tridiagonal_solve_perturbed_ffi", "", &inputs, &[(dtype, &[n, 2])]);
                for (i, b) in bs.iter().enumerate() {
                    let a = Matrix::new(n, n, |row, column| match (row + 1).wrapping_sub(column) {
                        0 => du[i][row],
                        1 => d[i][row],
                        2 => dl[i][row],
                        _ => (0.0, 0.0),
                    });
                    assert_close(&a.times(&exact[i][3]), b, 100.0 * precision);
                    assert_close(&a.times(&perturbed[i][0]), b, 100.0 * precision);
                    assert_eq!(exact[i][4].values, [(0.0, 0.0)]);
                }
            }
        }
        let zeros = [vec![(0.0, 0.0); 2]];
        let inputs: Vec<_> = (0..4).map(|i| (dtype, if i == 3 { &[2, 1][..] } else { &[2] }, &zeros[..])).collect();
        let found = call("tridiagonal_solve_perturbed_ffi", "", &inputs, &[(dtype, &[2, 1])]);
        assert!(found[0][0].values.iter().all(|x| x.0.is_finite()), "{found:?}");
    });
}

//! A buffer's elements as text: for people, and as constants in a program.

use crate::arrays::transfer::set_dim;
use crate::r::conditions::{Failure, Result};
use crate::r::sexp::{self, Protected};
use extendr_api::prelude::*;
use extendr_ffi::SEXPTYPE;
use pjrt_base::error::RESOURCE_EXHAUSTED;
use pjrt_base::process::check_interrupt_sometimes;
use pjrt_base::{error::Error, error::Kind};
use pjrt_core::buffer::read::Ready;
use pjrt_core::{Buffer, HostOrder};
use pjrt_data::array::Spec;
use pjrt_data::literal::Formatter;
use pjrt_data::print::{render, ElementSource, HostBytes, Options};

/// The lines that show a buffer's elements, in pieces of some lines each. Negative limits mean no limit.
pub fn buffer_lines(
    buffer: &Buffer,
    max_rows: f64,
    max_width: f64,
    max_rows_slice: f64,
    decimals: f64,
) -> Result<Robj> {
    let limit = |x: f64| (x >= 0.0).then_some(x as usize);
    let options = Options {
        max_rows: limit(max_rows),
        max_width: limit(max_width),
        max_rows_slice: limit(max_rows_slice),
        decimals: decimals as u32,
    };
    let dims: Vec<usize> = buffer.dims().iter().map(|&d| d as usize).collect();
    let ready = buffer.wait()?;
    let spec = buffer.spec();
    let in_order = spec.minor_to_major.is_none();
    let text = if in_order && !buffer.client().shares_host_memory() && !spec.dtype.is_packed() {
        render(spec.dtype, &dims, &mut DeviceBytes { ready, read: Vec::new() }, &options)?
    } else {
        let view = ready.view()?.in_order(spec, HostOrder::RowMajor)?;
        let text = render(spec.dtype, &dims, &mut HostBytes::new(spec.dtype, view.bytes()), &options)?;
        view.check()?;
        text
    };
    let pieces = pieces(&text);
    // The guard takes a third of the time to print a small array.
    if let [piece] = pieces[..] {
        return Ok(sexp::robj(sexp::new_string(piece)));
    }
    let out = Protected::new(sexp::vector(SEXPTYPE::STRSXP, pieces.len()));
    for (i, piece) in pieces.iter().enumerate() {
        check_interrupt_sometimes()?;
        ensure!(sexp::guarded(|| sexp::set_text(out.sexp(), i, piece))?, no_memory(spec));
    }
    Ok(sexp::robj(out.sexp()))
}

fn no_memory(spec: &Spec) -> Failure {
    let message = format!("Not enough memory for the text of {} elements.", spec.len());
    Error::new(Kind::Pjrt(RESOURCE_EXHAUSTED), message).into()
}

/// Splits text at line ends into pieces that R writes quickly, however long the text is.
pub fn pieces(text: &str) -> Vec<&str> {
    const PIECE: usize = 1 << 13;
    let (mut pieces, mut rest) = (Vec::new(), text);
    while let Some(end) = rest.bytes().skip(PIECE).position(|byte| byte == b'\n') {
        let (piece, more) = rest.split_at(PIECE + end + 1);
        pieces.push(piece);
        rest = more;
    }
    pieces.push(rest);
    pieces
}

/// The elements as StableHLO constants: a character vector with the buffer's dimensions.
pub fn buffer_literals(buffer: &Buffer) -> Result<Robj> {
    let ready = buffer.wait()?;
    let spec = buffer.spec();
    let out = Protected::new(sexp::vector(SEXPTYPE::STRSXP, spec.len()));
    set_dim(out.sexp(), spec);
    let elements = ready.view()?.ordered_copy(spec, HostOrder::ColumnMajor)?;
    // SAFETY: written just now, by us alone.
    let (bytes, width) = (unsafe { elements.bytes() }, spec.dtype.host_bytes());
    let mut formatter = Formatter::new(spec.dtype);
    let mut text = String::new();
    for (i, batch) in bytes.chunks(BATCH * width).enumerate() {
        check_interrupt_sometimes()?;
        // Written before R allocates: a jump would leave the formatter's text behind.
        text.clear();
        let ends = batch.chunks_exact(width).map(|element| {
            text.push_str(formatter.text(element));
            text.len()
        });
        let ends: Vec<usize> = ends.collect();
        let made = sexp::guarded(|| {
            let starts = std::iter::once(0).chain(ends.iter().copied());
            for (at, (start, &end)) in starts.zip(&ends).enumerate() {
                sexp::set_text(out.sexp(), i * BATCH + at, &text[start..end]);
            }
        })?;
        ensure!(made, no_memory(spec));
    }
    Ok(sexp::robj(out.sexp()))
}

/// The elements whose text is written before R gets them.
const BATCH: usize = 1 << 10;

/// Reads only the requested elements from a device with memory of its own.
struct DeviceBytes<'a> {
    ready: Ready<'a>,
    read: Vec<u8>,
}

impl ElementSource for DeviceBytes<'_> {
    fn read(&mut self, start: usize, len: usize) -> pjrt_base::error::Result<&[u8]> {
        let width = self.ready.buffer().dtype().host_bytes();
        self.read.resize(len * width, 0);
        self.ready.read_range(start * width, &mut self.read)?;
        Ok(&self.read)
    }
}

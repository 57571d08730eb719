//! Types that threads may share, and threads that do everything at once, on the real CPU plugin.

mod common;

use pjrt_base::{error::Error, error::Kind};
use pjrt_core::buffer::read::Transfer;
use pjrt_core::buffer::slice::{Axis, Slice};
use pjrt_core::cache::{Cache, InProcess};
use pjrt_core::executable::execute::{ExecuteOptions, Outputs};
use pjrt_core::executable::options::CompileOptions;
use pjrt_core::host::pool::PoolBlock;
use pjrt_core::runtime::event::Event;
use pjrt_core::{Buffer, Client, Compiling, Device, Executable, HostMemory, MemorySpace, Plugin, PluginValue};
use pjrt_data::array::Spec;
use pjrt_program::program::Program;
use std::sync::Mutex;

/// Everything that the crate's users hold may move to other threads and be used on several at once; the compiler checks
/// this.
#[test]
fn held_objects_are_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<PoolBlock>();
    shared::<Buffer>();
    shared::<Cache>();
    shared::<Client>();
    shared::<CompileOptions>();
    shared::<Compiling>();
    shared::<Device>();
    shared::<Error>();
    shared::<Event>();
    shared::<Executable>();
    shared::<ExecuteOptions>();
    shared::<HostMemory>();
    shared::<MemorySpace>();
    shared::<Outputs>();
    shared::<Slice>();
    shared::<Plugin>();
    shared::<Program>();
    shared::<InProcess>();
    shared::<Spec>();
    shared::<Transfer>();
    shared::<PluginValue>();
}

const N: i64 = 1000;

fn program(donates: bool) -> Program {
    let donated = if donates { " {tf.aliasing_output = 0 : i32}" } else { "" };
    let text = format!(
        "func.func @main(%x: tensor<{N}xf32>{donated}, %y: tensor<{N}xf32>) -> tensor<{N}xf32> {{
  %0 = stablehlo.add %x, %y : tensor<{N}xf32>
  return %0 : tensor<{N}xf32>
}}"
    );
    common::program(&text)
}

fn upload(device: &Device, value: f32) -> Buffer {
    common::upload_to(device, &[N], &vec![value; N as usize])
}

fn check(bytes: &[u8], value: f32) {
    assert!(bytes.chunks_exact(4).all(|b| f32::from_ne_bytes(b.try_into().unwrap()) == value), "all are {value}");
}

/// Numbers that differ from thread to thread and are the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

#[test]
fn threads_that_share_a_client_get_their_own_results() {
    const THREADS: u64 = 6;
    const STEPS: usize = 400;
    let client = common::client_of(2);
    let devices: Vec<Device> = client.devices().collect();
    let compile = |device: &Device, donates| {
        Executable::compile(std::slice::from_ref(device), &program(donates), &CompileOptions::default()).unwrap()
    };
    let add: Vec<Executable> = devices.iter().map(|device| compile(device, false)).collect();
    let add_into: Vec<Executable> = devices.iter().map(|device| compile(device, true)).collect();
    // Buffers that all threads read, replace and drop.
    let common = Mutex::new(vec![(0usize, 1.0f32, upload(&devices[0], 1.0)); 8]);

    std::thread::scope(|scope| {
        for thread in 1..=THREADS {
            let (devices, add, add_into, common) = (&devices, &add, &add_into, &common);
            scope.spawn(move || {
                let mut random = Random(thread.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                let mut transfers: Vec<(f32, Transfer)> = Vec::new();
                for step in 0..STEPS {
                    let place = random.below(8) as usize;
                    let (on, value, x) = common.lock().unwrap()[place].clone();
                    let device = &devices[on];
                    let one = upload(device, 1.0);
                    let sum = |with: &Executable, x: &Buffer| {
                        with.execute(&[x, &one], &ExecuteOptions::default()).unwrap().into_vec().remove(0)
                    };
                    match random.below(8) {
                        0 => check(x.read().unwrap().bytes(), value),
                        1 => check(sum(&add[on], &x).read().unwrap().bytes(), value + 1.0),
                        2 => {
                            let own = sum(&add[on], &x);
                            let result = sum(&add_into[on], &own);
                            assert_eq!(own.read().map(drop).unwrap_err().kind(), Kind::DeletedBuffer);
                            check(result.read().unwrap().bytes(), value + 2.0);
                        }
                        3 => transfers.push((value, x.start_read().unwrap())),
                        4 => {
                            let other = 1 - on;
                            let copy = x.copy_to(&devices[other]).unwrap();
                            common.lock().unwrap()[place] = (other, value, copy);
                        }
                        5 => {
                            let value = (step % 1000) as f32;
                            common.lock().unwrap()[place] = (on, value, upload(device, value));
                        }
                        6 => {
                            let part = Slice::new(vec![Axis::new(3, |i| 7 * i)]);
                            // SAFETY: nothing else writes to the block.
                            check(unsafe { x.wait().unwrap().read_part(&part).unwrap().bytes() }, value);
                        }
                        _ if step % 40 == 0 => {
                            let place = std::slice::from_ref(device);
                            let compiling =
                                Compiling::enqueue(None, place, &program(false), &CompileOptions::default());
                            check(sum(&compiling.unwrap().wait().unwrap(), &x).read().unwrap().bytes(), value + 1.0);
                        }
                        _ => drop(sum(&add[on], &x)),
                    }
                    if transfers.len() > 5 {
                        let (value, transfer) = transfers.swap_remove(random.below(6) as usize);
                        check(transfer.wait().unwrap().view().bytes(), value);
                    }
                }
            });
        }
    });
    drop(common);
    assert_eq!((client.usage().live_buffers(), client.usage().live_bytes()), (0, 0));
}

//! Files that a test writes and damages, and the largest allocation meanwhile, for the tests of readers.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

/// Records the largest allocation.
struct Largest;

pub static LARGEST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system's allocator, which is asked for all.
unsafe impl GlobalAlloc for Largest {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        System.alloc(layout)
    }

    unsafe fn dealloc(&self, data: *mut u8, layout: Layout) {
        System.dealloc(data, layout);
    }
}

#[global_allocator]
static ALLOCATOR: Largest = Largest;

/// Runs one test at a time, because all allocations count.
pub static ALONE: Mutex<()> = Mutex::new(());

/// A folder that is removed at the end of the test.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("pjrt-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    pub fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        // Some file systems take their time to overwrite a file.
        let _ = fs::remove_file(&path);
        fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

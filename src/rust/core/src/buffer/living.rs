//! The living buffers of a client: those that were not dropped, deleted or donated, and take memory.

use crate::buffer::{Buffer, Inner, ALIVE};
use crate::client::memory_space::MemorySpace;
use crate::client::Client;
use crate::runtime::registry::Resource;
use pjrt_base::coarse;
use pjrt_base::error::Result;
use pjrt_base::trace::Site;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

impl Buffer {
    /// The living buffers of a client, with those that only running programs or other objects still hold.
    ///
    /// # Errors
    /// `Forked`, `ClientClosed`.
    pub fn living(client: &Client) -> Result<Vec<Buffer>> {
        client.check_open()?;
        let buffer = |object: Arc<dyn Resource>| object.into_any().downcast::<Inner>().ok().map(Buffer);
        let is_alive = |buffer: &Buffer| buffer.0.state.load(Ordering::Acquire) == ALIVE;
        Ok(client.buffers().all().into_iter().filter_map(buffer).filter(is_alive).collect())
    }

    /// How long ago it was created, to some milliseconds.
    pub fn age(&self) -> Duration {
        coarse::now().saturating_sub(self.0.created)
    }

    /// The call that made it, if a trace was being recorded then.
    pub fn made_at(&self) -> Option<Arc<Site>> {
        self.0.client.buffers().site(&self.0.slot)
    }

    /// The buffer's memory space, if it is known without waiting.
    pub fn known_memory(&self) -> Option<MemorySpace> {
        if self.unfinished_launch().is_some() && !self.0.client.shares_host_memory() {
            return None;
        }
        self.memory().ok().flatten()
    }
}

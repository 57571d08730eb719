//! Which store the processes of a job have in common.

use pjrt_base::bail;
use pjrt_base::error::Result;
use pjrt_mpi::world;
use pjrt_store::{Address, Patience, RedisStore, Store};
use std::fmt;
use std::sync::Arc;

/// A store, as users name it.
#[derive(Debug, Clone)]
pub enum SharedStore {
    Redis(Box<Address>),
    /// The processes that MPI has started together keep the keys themselves.
    Mpi,
}

/// The name of the store without a server.
const MPI: &str = "mpi";

impl SharedStore {
    /// Reads a name: `mpi`, or what [`Address::read`] takes.
    ///
    /// # Errors
    /// `InvalidInput`, without the name in the message.
    pub fn read(text: &str) -> Result<SharedStore> {
        if text == MPI {
            return Ok(SharedStore::Mpi);
        }
        Address::read(text).map(|address| SharedStore::Redis(Box::new(address)))
    }

    /// Whether both are the same store, with the same user and password.
    pub(crate) fn same(&self, other: &SharedStore) -> bool {
        match (self, other) {
            (SharedStore::Redis(one), SharedStore::Redis(other)) => one.same(other),
            (SharedStore::Mpi, SharedStore::Mpi) => true,
            _ => false,
        }
    }

    /// Opens it for the process of a rank. All keys get the prefix.
    ///
    /// # Errors
    /// As [`RedisStore::open`] and [`world::store`]; `InvalidInput` if the rank or the size is not that of MPI.
    pub(crate) fn open(
        &self,
        prefix: &[u8],
        rank: usize,
        size: usize,
        patience: &Patience<'_>,
    ) -> Result<Arc<dyn Store>> {
        let address = match self {
            SharedStore::Redis(address) => address,
            SharedStore::Mpi => {
                let own = world::facts().map(|facts| (facts.rank, facts.size));
                if let Some((own_rank, own_size)) = own.filter(|&own| own != (rank, size)) {
                    bail!(
                        InvalidInput,
                        "With MPI as the store, the rank and the size must equal MPI's, {own_rank} and {own_size}: got {rank} and {size}."
                    );
                }
                return Ok(Arc::new(world::store(prefix, patience)?));
            }
        };
        Ok(Arc::new(RedisStore::open(address, prefix, patience)?))
    }
}

impl fmt::Display for SharedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SharedStore::Redis(address) => address.fmt(f),
            SharedStore::Mpi => f.write_str(MPI),
        }
    }
}

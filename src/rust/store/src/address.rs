//! Addresses of stores. A password is in no text that an address is shown as.

use pjrt_base::error::{Error, Kind, Result};
use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo};
use std::fmt;

/// Where a store is.
#[derive(Clone)]
pub struct Address {
    pub(crate) server: ConnectionInfo,
}

impl Address {
    /// Reads an address: `redis://[user][:password@]host[:port][/database]`, `rediss://...` for TLS, and
    /// `redis+unix:///path` for a socket.
    ///
    /// # Errors
    /// `InvalidInput`, without the address in the message.
    pub fn read(text: &str) -> Result<Address> {
        let is_known =
            ["redis://", "rediss://", "redis+unix://", "unix://"].iter().any(|scheme| text.starts_with(scheme));
        // TLS without checks of certificates is not offered.
        let server = if is_known && !text.contains("#insecure") { text.into_connection_info().ok() } else { None };
        let Some(server) = server else {
            return Err(Error::new(
                Kind::InvalidInput,
                "The store's address must be like redis://:password@host:6379, or rediss:// for TLS.",
            ));
        };
        Ok(Address { server })
    }

    /// Whether both are the same server, database, user and password.
    pub fn same(&self, other: &Address) -> bool {
        let (mine, theirs) = (self.server.redis_settings(), other.server.redis_settings());
        self.to_string() == other.to_string()
            && mine.username() == theirs.username()
            && mine.password() == theirs.password()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let database = self.server.redis_settings().db();
        match self.server.addr() {
            ConnectionAddr::Tcp(host, port) => write!(f, "redis://{host}:{port}")?,
            ConnectionAddr::TcpTls { host, port, .. } => write!(f, "rediss://{host}:{port}")?,
            ConnectionAddr::Unix(path) => write!(f, "redis+unix://{}", path.display())?,
            _ => f.write_str("redis")?,
        }
        if database != 0 {
            write!(f, "/{database}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_shows_the_password() {
        for (text, shown) in [
            ("redis://:s3cret@host:7000", "redis://host:7000"),
            ("rediss://me:s3cret@host/2", "rediss://host:6379/2"),
            ("redis+unix:///run/r.sock?pass=s3cret", "redis+unix:///run/r.sock"),
        ] {
            let address = Address::read(text).unwrap();
            assert_eq!(address.to_string(), shown);
            assert_eq!(format!("{address:?}"), format!("Address({shown})"));
            assert_eq!(address.server.redis_settings().password(), Some("s3cret"));
        }
        for text in
            ["", "host:6379", "http://:s3cret@host", "redis://:s3cret@host:port", "rediss://:s3cret@h/#insecure"]
        {
            let error = Address::read(text).unwrap_err();
            assert_eq!(error.kind(), Kind::InvalidInput, "{text}");
            assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
        }
    }

    #[test]
    fn the_same_server_with_another_password_is_another_address() {
        let read = |text| Address::read(text).unwrap();
        assert!(read("redis://:a@h").same(&read("redis://:a@h:6379/0")));
        assert!(!read("redis://:a@h").same(&read("redis://:b@h")));
    }
}

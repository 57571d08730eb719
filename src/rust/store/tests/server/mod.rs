//! A Redis server of a test.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub struct Server {
    child: Child,
    pub port: u16,
    pub folder: PathBuf,
}

/// A port that is free now.
pub fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

impl Server {
    /// A server on a free port, with these further arguments.
    pub fn start(arguments: &[&str]) -> Server {
        let server = Server::start_on(free_port(), arguments);
        server.wait();
        server
    }

    pub fn start_on(port: u16, arguments: &[&str]) -> Server {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("redis-{port}"));
        std::fs::create_dir_all(&folder).unwrap();
        let mut command = Command::new("redis-server");
        if !arguments.contains(&"--tls-port") {
            command.args(["--port", &port.to_string()]);
        }
        command.args(["--bind", "127.0.0.1", "--save", "", "--dir"]).arg(&folder).args(arguments);
        let child = command.stdout(Stdio::null()).spawn().expect("redis-server is installed");
        Server { child, port, folder }
    }

    fn wait(&self) {
        let end = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(Instant::now() < end, "the server does not start");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

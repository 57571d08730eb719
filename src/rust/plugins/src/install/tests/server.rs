//! An HTTP server on the loopback interface whose answers a test determines.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A request: its path, and its headers as lower-case `name: value` lines.
#[derive(Debug, Clone)]
pub struct Asked {
    pub path: String,
    pub headers: Vec<String>,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    /// The start of the requested range.
    pub fn range(&self) -> Option<usize> {
        self.header("range")?.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok()
    }
}

/// Serves until the process ends. Each connection handles one request.
pub struct Server {
    pub url: String,
    log: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    /// `answer` gets the request's number, the request, and the connection to write to.
    pub fn start(answer: impl Fn(usize, &Asked, &mut TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let log = Arc::new(Mutex::new(Vec::new()));
        let (answer, asked) = (Arc::new(answer), log.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answer, asked) = (answer.clone(), asked.clone());
                std::thread::spawn(move || {
                    let Some(request) = read(&stream) else { return };
                    let number = {
                        let mut log = asked.lock().unwrap();
                        log.push(request.clone());
                        log.len() - 1
                    };
                    answer(number, &request, &mut { stream });
                });
            }
        });
        Server { url, log }
    }

    /// The requests so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.log.lock().unwrap().clone()
    }
}

fn read(stream: &TcpStream) -> Option<Asked> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next()?.ok()?;
    let path = first.split(' ').nth(1)?.to_string();
    let lower = |line: String| match line.split_once(':') {
        Some((name, value)) => format!("{}: {}", name.to_ascii_lowercase(), value.trim()),
        None => line,
    };
    let headers = lines.map_while(Result::ok).take_while(|line| !line.is_empty()).map(lower).collect();
    Some(Asked { path, headers })
}

/// Writes an answer with the correct length in its headers.
pub fn reply(stream: &mut TcpStream, status: &str, headers: &str, body: &[u8]) {
    head(stream, status, headers, body.len());
    let _ = stream.write_all(body);
}

/// Writes headers that announce `length` bytes.
pub fn head(stream: &mut TcpStream, status: &str, headers: &str, length: usize) {
    let text = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n{headers}\r\n");
    let _ = stream.write_all(text.as_bytes());
}

/// Serves all `bytes`, or those from the start of the requested range.
pub fn file(asked: &Asked, stream: &mut TcpStream, bytes: &[u8]) {
    match asked.range() {
        Some(start) => {
            let range = format!("Content-Range: bytes {start}-{}/{}\r\n", bytes.len() - 1, bytes.len());
            reply(stream, "206 Partial Content", &range, &bytes[start..]);
        }
        None => reply(stream, "200 OK", "", bytes),
    }
}

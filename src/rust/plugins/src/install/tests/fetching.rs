//! A file arrives complete, or an error gives the reason.

use super::super::{address, download, verify};
use super::server::{file, head, reply, Server};
use super::*;
use pjrt_base::error::Kind;
use reqwest::Url;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// Fetches `<server>/f.whl` and returns its hash and bytes.
fn fetch(server: &Server) -> Result<(String, Vec<u8>)> {
    fetch_with(&server.url, &http(), &mut |_, _| true)
}

fn fetch_with(url: &str, http: &Http, progress: &mut super::super::Progress<'_>) -> Result<(String, Vec<u8>)> {
    let folder = Folder::new();
    let to = folder.join("f.whl");
    let url = Url::parse(&format!("{url}/f.whl")).unwrap();
    let hash = download::fetch(http, &url, &to, None, &mut Watch::new(progress))?;
    Ok((hash, std::fs::read(to).unwrap()))
}

fn assert_whole(server: &Server, bytes: &[u8], requests: usize) {
    let (hash, got) = fetch(server).unwrap();
    assert!(got == bytes, "{} bytes, expected {}", got.len(), bytes.len());
    assert_eq!(hash, sha256(bytes));
    assert_eq!(server.asked().len(), requests);
}

#[test]
fn the_hash_matches_the_standards_examples() {
    assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

#[test]
fn a_file_arrives_and_progress_goes_up_to_its_length() {
    let bytes = wheel_bytes();
    let (served, length) = (bytes.clone(), bytes.len() as u64);
    let server = Server::start(move |_, asked, stream| file(asked, stream, &served));
    let mut reported = Vec::new();
    let (hash, _) = fetch_with(&server.url, &http(), &mut |done, total| {
        reported.push((done, total));
        true
    })
    .unwrap();
    assert_eq!(hash, sha256(&bytes));
    assert!(reported.windows(2).all(|pair| pair[0].0 <= pair[1].0));
    assert_eq!(reported.last(), Some(&(length, Some(length))));
    assert!(reported.len() as u64 >= length >> 21, "{reported:?}");
    assert!(server.asked()[0].header("user-agent").unwrap().starts_with("pjrt/"));
}

#[test]
fn a_broken_download_goes_on_where_it_stopped() {
    let bytes = wheel_bytes();
    let served = bytes.clone();
    let server = Server::start(move |number, asked, stream| match number {
        0 => {
            head(stream, "200 OK", "ETag: \"v1\"\r\n", served.len());
            let _ = stream.write_all(&served[..1_000_000]);
        }
        _ => file(asked, stream, &served),
    });
    assert_whole(&server, &bytes, 2);
    let second = &server.asked()[1];
    assert!((1..=1_000_000).contains(&second.range().unwrap()));
    assert_eq!(second.header("if-range"), Some("\"v1\""));
}

#[test]
fn a_server_without_ranges_is_asked_for_all_of_it_again() {
    let bytes = wheel_bytes();
    let served = bytes.clone();
    let server = Server::start(move |number, _, stream| match number {
        0 => {
            head(stream, "200 OK", "", served.len());
            let _ = stream.write_all(&served[..1_000_000]);
        }
        _ => reply(stream, "200 OK", "", &served),
    });
    assert_whole(&server, &bytes, 2);
}

#[test]
fn a_server_that_continues_at_the_wrong_place_is_asked_for_all_of_it_again() {
    let bytes = wheel_bytes();
    let served = bytes.clone();
    let server = Server::start(move |number, asked, stream| match number {
        0 => {
            head(stream, "200 OK", "", served.len());
            let _ = stream.write_all(&served[..1_000_000]);
        }
        1 => reply(stream, "206 Partial Content", "Content-Range: bytes 5-9/10\r\n", &served[5..10]),
        2 => {
            head(stream, "200 OK", "", served.len());
            let _ = stream.write_all(&served[..1_000_000]);
        }
        3 => reply(stream, "416 Range Not Satisfiable", "", b""),
        _ => file(asked, stream, &served),
    });
    let mut patient = limits();
    patient.pauses = vec![Duration::ZERO; 4];
    let http = Http::new(&Invented::default(), patient).unwrap();
    let (hash, _) = fetch_with(&server.url, &http, &mut |_, _| true).unwrap();
    assert_eq!(hash, sha256(&bytes));
    let ranges: Vec<_> = server.asked().iter().map(|asked| asked.range().is_some()).collect();
    assert_eq!(ranges, [false, true, false, true, false]);
}

#[test]
fn a_failing_server_is_retried() {
    let server = Server::start(|number, _, stream| match number {
        0 => reply(stream, "500 Internal Server Error", "", b"oops"),
        1 => reply(stream, "429 Too Many Requests", "", b""),
        2 => {} // closes without a word
        _ => reply(stream, "200 OK", "", b"good"),
    });
    assert_whole(&server, b"good", 4);
}

#[test]
fn a_server_that_keeps_failing_is_given_up() {
    let server = Server::start(|_, _, stream| reply(stream, "503 Service Unavailable", "", b""));
    let error = fetch(&server).unwrap_err();
    assert_eq!(error.kind(), Kind::Download);
    assert!(error.message().contains("503 Service Unavailable, in 4 attempts"), "{error}");
    assert_eq!(server.asked().len(), 4);
}

#[test]
fn a_missing_file_is_requested_once_and_the_error_shows_no_password() {
    let server = Server::start(|_, _, stream| reply(stream, "404 Not Found", "", b""));
    let url = server.url.replace("http://", "http://user:secret@");
    let error = fetch_with(&url, &http(), &mut |_, _| true).unwrap_err();
    assert_eq!(error.kind(), Kind::Download);
    let text = error.to_string();
    assert!(text.contains("/f.whl>: status 404 Not Found") && text.contains("PJRT_INDEX_URL"), "{text}");
    assert!(!text.contains("secret") && !text.contains("user"), "{text}");
    assert_eq!(server.asked().len(), 1);
    assert_eq!(server.asked()[0].header("authorization"), Some("Basic dXNlcjpzZWNyZXQ="));
}

#[test]
fn a_server_that_wants_a_login_raises_an_error_that_says_how() {
    let server = Server::start(|_, _, stream| reply(stream, "401 Unauthorized", "", b""));
    let error = fetch(&server).unwrap_err();
    assert!(error.hints()[0].contains("https://user:password@host/path"), "{error}");
}

#[test]
fn a_server_that_does_not_answer_is_retried_and_named() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://user:secret@{}", listener.local_addr().unwrap());
    drop(listener);
    let error = fetch_with(&url, &http(), &mut |_, _| true).unwrap_err();
    assert_eq!(error.kind(), Kind::Download);
    let text = error.to_string();
    assert!(text.contains("127.0.0.1") && text.contains("refused") && text.contains("HTTPS_PROXY"), "{text}");
    assert!(!text.contains("secret"), "{text}");
}

#[test]
fn a_redirect_is_followed() {
    let server = Server::start(|_, asked, stream| match asked.path.as_str() {
        "/f.whl" => reply(stream, "302 Found", "Location: /elsewhere/g.whl\r\n", b""),
        _ => reply(stream, "200 OK", "", b"there"),
    });
    assert_whole(&server, b"there", 2);
}

#[test]
fn a_redirect_without_end_is_an_error() {
    let server = Server::start(|_, _, stream| reply(stream, "302 Found", "Location: /f.whl\r\n", b""));
    let error = fetch(&server).unwrap_err();
    assert_eq!(error.kind(), Kind::Download);
    assert!(error.message().contains("redirect"), "{error}");
}

#[test]
fn the_caller_can_stop_while_the_server_is_silent() {
    for sends_headers in [false, true] {
        let has_ended = Arc::new(AtomicBool::new(false));
        let ends = has_ended.clone();
        let server = Server::start(move |_, _, stream| {
            if sends_headers {
                head(stream, "200 OK", "", 1000);
            }
            std::thread::sleep(Duration::from_secs(20));
            ends.store(true, Ordering::SeqCst);
        });
        let mut calls = 0;
        let error = fetch_with(&server.url, &http(), &mut |_, _| {
            calls += 1;
            calls < 4
        })
        .unwrap_err();
        assert_eq!((error.kind(), calls), (Kind::Interrupted, 4));
        assert!(!has_ended.load(Ordering::SeqCst));
    }
}

#[test]
fn a_slow_download_continues_while_data_arrives() {
    let server = Server::start(|_, _, stream| {
        head(stream, "200 OK", "", 8);
        for byte in b"slowness" {
            std::thread::sleep(Duration::from_millis(250));
            let _ = stream.write_all(&[*byte]);
        }
    });
    let http = Http::new(&Invented::default(), Limits { silence: Duration::from_millis(1500), ..limits() }).unwrap();
    assert_eq!(fetch_with(&server.url, &http, &mut |_, _| true).unwrap().1, b"slowness");
    assert_eq!(server.asked().len(), 1);
}

#[test]
fn a_silent_server_is_given_up() {
    let server = Server::start(|_, _, stream| {
        head(stream, "200 OK", "", 1000);
        std::thread::sleep(Duration::from_secs(20));
    });
    let impatient = Limits { silence: Duration::from_millis(100), pauses: vec![Duration::ZERO], ..limits() };
    let http = Http::new(&Invented::default(), impatient).unwrap();
    let error = fetch_with(&server.url, &http, &mut |_, _| true).unwrap_err();
    assert!(error.message().contains("no data for 100ms, in 2 attempts"), "{error}");
}

#[test]
fn a_wrong_hash_is_an_error_with_both_hashes() {
    let url = address::parse("https://user:secret@host.test/f.whl", "", "").unwrap();
    verify::check("ab", "AB", &url).unwrap();
    let error = verify::check("ab", "cd", &url).unwrap_err();
    assert_eq!(error.kind(), Kind::Checksum);
    assert!(error.message().contains("is ab, expected cd"), "{error}");
    assert!(!error.to_string().contains("secret"));
}

/// Fetches a file with a known hash to a place that already contains `left`.
fn continue_from(left: &[u8], server: &Server, bytes: &[u8]) {
    let folder = Folder::new();
    let to = folder.join("f.whl");
    std::fs::write(&to, left).unwrap();
    let url = Url::parse(&format!("{}/f.whl", server.url)).unwrap();
    let expected = sha256(bytes);
    let hash = download::fetch(&http(), &url, &to, Some(&expected), &mut Watch::new(&mut |_, _| true)).unwrap();
    assert_eq!(hash, expected);
    assert!(std::fs::read(&to).unwrap() == bytes);
}

#[test]
fn an_earlier_attempt_is_continued() {
    let bytes = wheel_bytes();
    let served = bytes.clone();
    let server = Server::start(move |_, asked, stream| file(asked, stream, &served));
    continue_from(&bytes[..700_000], &server, &bytes);
    assert_eq!(server.asked()[0].range(), Some(700_000));
    continue_from(&bytes, &server, &bytes);
    assert_eq!(server.asked().len(), 1, "what is complete is not asked for");
}

#[test]
fn a_download_survives_any_number_of_broken_connections_that_deliver_data() {
    let bytes = wheel_bytes();
    let served = bytes.clone();
    let server = Server::start(move |_, asked, stream| {
        let start = asked.range().unwrap_or(0);
        let end = served.len().min(start + 100_000);
        let range = format!("Content-Range: bytes {start}-{}/{}\r\n", served.len() - 1, served.len());
        let status = if start == 0 { "200 OK" } else { "206 Partial Content" };
        head(stream, status, &range, served.len() - start);
        let _ = stream.write_all(&served[start..end]);
    });
    let requests = bytes.len().div_ceil(100_000);
    assert!(requests > limits().pauses.len() + 2);
    assert_whole(&server, &bytes, requests);
}

#[test]
fn a_download_without_progress_is_given_up() {
    let bytes = wheel_bytes();
    let server = Server::start(move |_, _, stream| {
        head(stream, "200 OK", "", bytes.len());
        let _ = stream.write_all(&bytes[..100_000]);
    });
    assert_eq!(fetch(&server).unwrap_err().kind(), Kind::Download);
    // The first attempt made progress, the later ones did not.
    assert_eq!(server.asked().len(), limits().pauses.len() + 1);
}

#[test]
fn a_broken_or_missing_certificate_file_is_ignored() {
    let mut machine = Invented::default();
    machine.variables.extend([("PIP_CERT", "/broken.pem"), ("CURL_CA_BUNDLE", "/missing.pem")]);
    machine.files.insert("/broken.pem", "-----BEGIN CERTIFICATE-----\nMTIz\n-----END CERTIFICATE-----\n");
    let server = Server::start(|_, _, stream| reply(stream, "200 OK", "", b"good"));
    let http = Http::new(&machine, limits()).unwrap();
    assert_eq!(fetch_with(&server.url, &http, &mut |_, _| true).unwrap().1, b"good");
}

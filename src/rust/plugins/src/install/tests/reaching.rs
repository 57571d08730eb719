//! Connections from a company's network, with its proxy and its own certificate authority.

use super::super::download;
use super::server::{reply, Server};
use super::*;
use pjrt_base::error::Kind;
use reqwest::Url;
use rustls::pki_types::{pem::PemObject, CertificateDer, PrivateKeyDer};
use std::io::Read;
use std::sync::Arc;

fn get(http: &Http, url: &str) -> Result<Vec<u8>> {
    let folder = Folder::new();
    let to = folder.join("f");
    download::fetch(http, &Url::parse(url).unwrap(), &to, None, &mut Watch::new(&mut |_, _| true))?;
    Ok(std::fs::read(to).unwrap())
}

const AUTHORITY: &str = include_str!("tls/authority.pem");

/// The URL of a server whose certificate only the test's own authority has signed.
fn https_server() -> String {
    https_server_with("200 OK".into())
}

/// The same, for a server that answers with this status and additional headers.
fn https_server_with(status: String) -> String {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let chain = vec![CertificateDer::from_pem_slice(include_bytes!("tls/server.pem")).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("tls/server.key")).unwrap();
    let config = rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/f.whl", listener.local_addr().unwrap());
    let config = Arc::new(config);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let connection = rustls::ServerConnection::new(config.clone()).unwrap();
            let mut stream = rustls::StreamOwned::new(connection, stream);
            // A client that does not trust the certificate closes the connection.
            let mut request = [0; 4096];
            if stream.read(&mut request).is_ok_and(|n| n > 0) {
                let _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 4\r\nConnection: close\r\n\r\nsafe");
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
        }
    });
    url
}

#[test]
fn a_custom_certificate_authority_is_trusted_if_a_variable_or_pip_names_it() {
    let url = https_server();
    for name in ["SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"] {
        let mut machine = Invented::default();
        machine.variables.insert(name, "/authority.pem");
        machine.files.insert("/authority.pem", AUTHORITY);
        assert_eq!(get(&Http::new(&machine, limits()).unwrap(), &url).unwrap(), b"safe", "{name}");
    }
    let mut machine = Invented::default();
    machine.files.extend([("/etc/pip.conf", "[global]\ncert = /authority.pem\n"), ("/authority.pem", AUTHORITY)]);
    assert_eq!(get(&Http::new(&machine, limits()).unwrap(), &url).unwrap(), b"safe");
}

#[test]
fn an_untrusted_certificate_raises_an_error_that_says_what_to_set() {
    let error = get(&http(), &https_server()).unwrap_err();
    assert_eq!(error.kind(), Kind::Download);
    assert!(error.message().contains("certificate") && error.to_string().contains("SSL_CERT_FILE"), "{error}");
}

#[test]
fn a_redirect_never_leaves_an_encrypted_connection() {
    let plain = Server::start(|_, _, stream| reply(stream, "200 OK", "", b"anybody's"));
    let url = https_server_with(format!("302 Found\r\nLocation: {}/f.whl", plain.url));
    let mut machine = Invented::default();
    machine.variables.insert("SSL_CERT_FILE", "/authority.pem");
    machine.files.insert("/authority.pem", AUTHORITY);
    let error = get(&Http::new(&machine, limits()).unwrap(), &url).unwrap_err();
    assert!(error.kind() == Kind::Download && error.message().contains("without encryption"), "{error}");
    assert_eq!(plain.asked().len(), 0);
}

/// The proxy variables belong to the whole process, so this test runs itself again in a process that has them.
#[test]
fn the_proxy_that_variables_name_is_used_except_where_they_say_otherwise() {
    if let Ok(direct) = std::env::var("PJRT_TEST_DIRECT") {
        let http = Http::new(&Invented::default(), Limits { proxies: true, ..limits() }).unwrap();
        assert_eq!(get(&http, "http://files.test/f.whl").unwrap(), b"by proxy");
        assert_eq!(get(&http, &format!("{direct}/f.whl")).unwrap(), b"direct");
        return;
    }
    let proxy = Server::start(|_, _, stream| reply(stream, "200 OK", "", b"by proxy"));
    let direct = Server::start(|_, _, stream| reply(stream, "200 OK", "", b"direct"));
    let name = "install::tests::reaching::the_proxy_that_variables_name_is_used_except_where_they_say_otherwise";
    let done = std::process::Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact"])
        .env("PJRT_TEST_DIRECT", &direct.url)
        .env("http_proxy", proxy.url.replace("://", "://me:secret@"))
        .env("no_proxy", "127.0.0.1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && said.contains("1 passed"), "{said}");
    let asked = proxy.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].path, "http://files.test/f.whl");
    // "me:secret" in base 64.
    assert_eq!(asked[0].header("proxy-authorization"), Some("Basic bWU6c2VjcmV0"));
    assert_eq!(direct.asked().len(), 1);
}

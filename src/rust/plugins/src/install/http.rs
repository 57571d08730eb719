//! HTTP client: uses the machine's certificates and proxies, limits silence, retries, and can be cancelled at any time.
//! The network runs on the caller's own thread, in slices between which the caller can cancel. No thread outlives the
//! work.

use super::address::redact;
use super::index::{self, Machine};
use super::watch::{Watch, SLICE};
use pjrt_base::error::{Error, Kind, Result};
use reqwest::header::{HeaderMap, HeaderValue, ACCEPT};
use reqwest::redirect::{Attempt, Policy};
use reqwest::{Certificate, Response, StatusCode, Url};
use rustls::pki_types::{pem::PemObject, CertificateDer};
use std::future::Future;
use std::pin::pin;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Handle, Runtime};

/// Variables that name a file of certificates to trust in addition to the system's.
const CERTIFICATE_FILES: [&str; 4] = ["SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"];
/// An index page may be JSON (PEP 691) or HTML (PEP 503).
const PAGE_TYPES: &str =
    "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.01";
/// The largest index page.
const MAX_PAGE: usize = 64 << 20;

#[derive(Debug, Clone)]
pub(super) struct Limits {
    /// For a connection.
    pub connect: Duration,
    /// For the next piece of data.
    pub silence: Duration,
    /// The pauses before further attempts.
    pub pauses: Vec<Duration>,
    /// Whether to use the environment's proxies.
    pub proxies: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connect: Duration::from_secs(30),
            silence: Duration::from_secs(60),
            pauses: [200, 1000, 3000].map(Duration::from_millis).to_vec(),
            proxies: true,
        }
    }
}

/// Why an attempt failed.
pub(super) enum HttpFailure {
    /// Another attempt may succeed. Contains the reason, as part of a sentence.
    Retry(String),
    /// The same after progress: the attempts are counted anew.
    Broken(String),
    /// Another attempt will not succeed.
    Stop(Error),
}

impl From<Error> for HttpFailure {
    fn from(error: Error) -> Self {
        HttpFailure::Stop(error)
    }
}

pub(super) struct Http {
    client: reqwest::Client,
    limits: Limits,
    /// `None` only while it is being dropped.
    runtime: Option<Runtime>,
}

/// The answer to a page request.
pub(super) struct Answer {
    /// The URL of the page after redirects: the base of its links.
    pub url: Url,
    pub is_json: bool,
    pub text: String,
}

impl Http {
    pub fn new(machine: &dyn Machine, limits: Limits) -> Result<Self> {
        let internal =
            |e: &dyn std::fmt::Display| Error::new(Kind::Internal, format!("Cannot set up an HTTP client: {e}."));
        ensure!(Handle::try_current().is_err(), internal(&"called from asynchronous code"));
        // An error means that the process already has a provider, which works as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        if limits.proxies {
            check_proxies(machine)?;
        }
        let certificates = certificates(machine);
        let builder = || {
            let builder = reqwest::Client::builder()
                .user_agent(concat!("pjrt/", env!("CARGO_PKG_VERSION")))
                .connect_timeout(limits.connect)
                .redirect(Policy::custom(redirect))
                .referer(false);
            if limits.proxies {
                builder
            } else {
                builder.no_proxy()
            }
        };
        let client = builder().tls_certs_merge(certificates.clone()).build();
        // HTTP works on a machine without certificates.
        let client = client.or_else(|_| builder().tls_certs_only(certificates).build()).map_err(|e| internal(&e))?;
        let runtime = Builder::new_current_thread().enable_all().build().map_err(|e| internal(&e))?;
        Ok(Http { client, limits, runtime: Some(runtime) })
    }

    /// Runs `work` until it is done, is silent for too long, or is cancelled.
    fn wait<T>(
        &self,
        watch: &mut Watch<'_>,
        work: impl Future<Output = reqwest::Result<T>>,
    ) -> std::result::Result<T, HttpFailure> {
        let Some(runtime) = &self.runtime else {
            return Err(Error::new(Kind::Internal, "The HTTP client is closed.").into());
        };
        let started = Instant::now();
        runtime.block_on(async {
            let mut work = pin!(work);
            loop {
                match tokio::time::timeout(SLICE, work.as_mut()).await {
                    Ok(Ok(value)) => return Ok(value),
                    Ok(Err(error)) => return Err(failure(error)),
                    Err(_) if started.elapsed() > self.limits.silence => {
                        return Err(HttpFailure::Retry(format!("no data for {:?}", self.limits.silence)));
                    }
                    Err(_) => watch.tick()?,
                }
            }
        })
    }

    /// Sends a GET request and returns the answer once its headers have arrived, if its status is a success.
    pub fn get(
        &self,
        url: &Url,
        headers: HeaderMap,
        watch: &mut Watch<'_>,
    ) -> std::result::Result<Response, HttpFailure> {
        let response = self.wait(watch, self.client.get(url.clone()).headers(headers).send())?;
        let status = response.status();
        if status.is_success() || status == StatusCode::RANGE_NOT_SATISFIABLE {
            return Ok(response);
        }
        let transient =
            status.is_server_error() || matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS);
        ensure!(!transient, HttpFailure::Retry(format!("status {status}")));
        let hint = match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::PROXY_AUTHENTICATION_REQUIRED => LOGIN_HINT,
            _ => INDEX_HINT,
        };
        Err(download_error(url, &format!("status {status}"), hint).into())
    }

    /// The next piece of an answer's body; `None` at its end.
    pub fn chunk(
        &self,
        response: &mut Response,
        watch: &mut Watch<'_>,
    ) -> std::result::Result<Option<impl AsRef<[u8]>>, HttpFailure> {
        self.wait(watch, response.chunk())
    }

    /// Retries until an attempt succeeds or no attempt is left.
    pub fn retrying<T>(
        &self,
        url: &Url,
        watch: &mut Watch<'_>,
        mut attempt: impl FnMut(&mut Watch<'_>) -> std::result::Result<T, HttpFailure>,
    ) -> Result<T> {
        let mut pauses = self.limits.pauses.iter();
        loop {
            let reason = match attempt(watch) {
                Ok(value) => return Ok(value),
                Err(HttpFailure::Stop(error)) => return Err(error),
                Err(HttpFailure::Retry(reason)) => reason,
                Err(HttpFailure::Broken(reason)) => {
                    pauses = self.limits.pauses.iter();
                    reason
                }
            };
            let Some(pause) = pauses.next() else {
                let reason = format!("{reason}, in {} attempts", self.limits.pauses.len() + 1);
                return Err(download_error(url, &reason, CONNECTION_HINT));
            };
            watch.pause(*pause)?;
        }
    }

    pub fn page(&self, url: &Url, watch: &mut Watch<'_>) -> Result<Answer> {
        self.retrying(url, watch, |watch| {
            let accept = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(PAGE_TYPES))]);
            let mut response = self.get(url, accept, watch)?;
            let is_json = response
                .headers()
                .get(reqwest::header::CONTENT_TYPE)
                .and_then(|v| v.to_str().ok())
                .is_some_and(|v| v.contains("json"));
            let mut body = Vec::new();
            while let Some(chunk) = self.chunk(&mut response, watch)? {
                body.extend_from_slice(chunk.as_ref());
                ensure!(body.len() <= MAX_PAGE, download_error(url, "the page is too large for an index", INDEX_HINT));
            }
            let text = String::from_utf8_lossy(&body).into_owned();
            Ok(Answer { url: response.url().clone(), is_json, text })
        })
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        // Looking up a host name cannot be cancelled, so nothing waits for it.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Follows redirects, except from an encrypted connection to an unencrypted one, which anybody could have changed.
fn redirect(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let was_encrypted = attempt.previous().last().is_some_and(|url| url.scheme() == "https");
    if was_encrypted && attempt.url().scheme() != "https" {
        return attempt.error("it redirects from https to an address without encryption");
    }
    Policy::default().redirect(attempt)
}

/// Refuses proxies without a valid address: requests would go without them.
///
/// # Errors
/// `InvalidInput`.
fn check_proxies(machine: &dyn Machine) -> Result<()> {
    for name in ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        let Some(proxy) = machine.variable(name).filter(|proxy| !proxy.trim().is_empty()) else { continue };
        // Requests would go without a proxy of another kind, too.
        let is_known = proxy.trim().split_once("://").is_none_or(|(scheme, _)| matches!(scheme, "http" | "https"));
        if !is_known || reqwest::Proxy::all(proxy.trim()).is_err() {
            let message =
                format!("The environment variable {name} is not the address of an HTTP proxy: '{}'.", redact(&proxy));
            return Err(Error::new(Kind::InvalidInput, message).hint("Such as http://proxy.example.org:3128."));
        }
    }
    Ok(())
}

/// The certificates that variables and pip's settings name. Skips unreadable ones: a connection that needs them fails
/// with its own error.
fn certificates(machine: &dyn Machine) -> Vec<Certificate> {
    let files =
        CERTIFICATE_FILES.iter().filter_map(|name| machine.variable(name)).chain(index::pip_setting(machine, "cert"));
    let mut files: Vec<_> = files.collect();
    files.sort_unstable();
    files.dedup();
    let texts = files.iter().filter_map(|file| machine.read(file.as_ref()));
    let mut known = rustls::RootCertStore::empty();
    let mut found = Vec::new();
    for text in texts {
        for der in CertificateDer::pem_slice_iter(text.as_bytes()).flatten() {
            // A certificate that this library does not support would make the whole client fail.
            if known.add(der.clone()).is_ok() {
                found.extend(Certificate::from_der(&der));
            }
        }
    }
    found
}

fn failure(error: reqwest::Error) -> HttpFailure {
    let hopeless = error.is_builder() || error.is_redirect();
    let url = error.url().cloned();
    // The URL may contain a password; messages show it redacted.
    let error = error.without_url();
    let mut reason = error.to_string();
    for cause in std::iter::successors(std::error::Error::source(&error), |cause| cause.source()) {
        let text = cause.to_string();
        if !reason.contains(&text) {
            reason = format!("{reason}: {text}");
        }
    }
    let untrusted = reason.contains("certificate");
    match url {
        Some(url) if untrusted => download_error(&url, &reason, CERTIFICATE_HINT).into(),
        Some(url) if hopeless => download_error(&url, &reason, INDEX_HINT).into(),
        _ => HttpFailure::Retry(reason),
    }
}

pub(super) const INDEX_HINT: &str =
    "Check the URL. PJRT_INDEX_URL names another Python package index, PJRT_PLUGIN_URL_<PLATFORM> another file.";
const CONNECTION_HINT: &str = "Check the network connection. Behind a proxy, set HTTPS_PROXY; to use another Python \
                               package index, set PJRT_INDEX_URL to its URL.";
const CERTIFICATE_HINT: &str = "Install the system's certificates (package ca-certificates), or set SSL_CERT_FILE to \
                                a file with the certificate of your proxy or index.";
const LOGIN_HINT: &str = "If the index asks for a login, set PJRT_INDEX_URL to https://user:password@host/path.";

/// The error for a failed download from `url`, with a reason and a hint.
pub(super) fn download_error(url: &Url, reason: &str, hint: &str) -> Error {
    let message = format!("Cannot download <{}>: {reason}.", redact(url.as_str()));
    Error::new(Kind::Download, message).hint(hint)
}

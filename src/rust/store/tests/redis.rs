//! The store on real Redis servers.

mod server;

use pjrt_store::{
    wait, Address, Patience, RedisStore, Store, CANCELLED, DEADLINE_EXCEEDED, INVALID_ARGUMENT, MAX_VALUE,
    RESOURCE_EXHAUSTED, UNAUTHENTICATED, UNAVAILABLE,
};
use server::{free_port, Server};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);

fn open(server: &Server, prefix: &str) -> RedisStore {
    let address = Address::read(&format!("redis://127.0.0.1:{}", server.port)).unwrap();
    RedisStore::open(&address, prefix.as_bytes(), &wait(5 * SECOND)).unwrap()
}

#[test]
fn keys_and_values_are_any_bytes() {
    let server = Server::start(&[]);
    let store = open(&server, "job");
    let all: Vec<u8> = (0..=255).collect();
    let large: Vec<u8> = (0..32 << 20).map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let values: [&[u8]; 6] = [b"", b"\0", b"a\0b\r\n", &all, b"OK", &large];
    for key in [&b""[..], b"a key", b"\0\xff\r\n", &all] {
        assert_eq!(store.try_get(key).unwrap(), None);
        for value in values {
            store.put(key, value).unwrap();
            assert!(store.try_get(key).unwrap().unwrap() == value);
            assert!(store.get(key, &wait(SECOND)).unwrap() == value);
        }
    }
}

#[test]
fn a_value_that_is_too_long_is_refused() {
    let server = Server::start(&[]);
    let store = open(&server, "job");
    // Zeros that the system has not handed out yet.
    let error = store.put(b"k", &vec![0; MAX_VALUE + 1]).unwrap_err();
    assert_eq!(error.code(), Some(INVALID_ARGUMENT));
    assert_eq!(store.try_get(b"k").unwrap(), None);
}

#[test]
fn any_number_of_waiters_get_a_value_once_it_is_there() {
    let server = Server::start(&[]);
    let (store, other) = (open(&server, "job"), open(&server, "job"));
    std::thread::scope(|scope| {
        let waiters: Vec<_> = (0..50)
            .map(|i| {
                let store = if i % 2 == 0 { &store } else { &other };
                scope.spawn(move || (store.get(b"k", &wait(20 * SECOND)).unwrap(), Instant::now()))
            })
            .collect();
        std::thread::sleep(SECOND / 2);
        assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
        let put = Instant::now();
        store.put(b"k", b"late").unwrap();
        let late = waiters.into_iter().map(|waiter| {
            let (value, when) = waiter.join().unwrap();
            assert_eq!(value, b"late");
            when - put
        });
        // The value wakes them, not the end of a slice of their time. A busy machine makes some of them late.
        let mut late: Vec<_> = late.collect();
        late.sort();
        let median = late[late.len() / 2];
        assert!(median < SECOND / 2, "{median:?}");
    });
}

#[test]
fn a_wait_ends_in_time_or_when_it_is_cancelled() {
    let server = Server::start(&[]);
    let store = open(&server, "job");
    for milliseconds in [0, 1, 300, 1300] {
        let time = Duration::from_millis(milliseconds);
        // Again where a busy machine is late.
        let took = (0..3).map(|_| {
            let start = Instant::now();
            let error = store.get(b"absent", &wait(time)).unwrap_err();
            assert_eq!(error.code(), Some(DEADLINE_EXCEEDED));
            assert!(error.message().contains("'absent'"), "{error}");
            start.elapsed()
        });
        let shortest = took.min().unwrap();
        assert!(shortest >= time && shortest < time + SECOND / 2, "{shortest:?}");
    }
    let is_cancelled = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let wait = || store.get(b"absent", &Patience::new(60 * SECOND, &|| is_cancelled.load(Ordering::SeqCst)));
        let waiter = scope.spawn(wait);
        std::thread::sleep(SECOND / 5);
        is_cancelled.store(true, Ordering::SeqCst);
        let start = Instant::now();
        assert_eq!(waiter.join().unwrap().unwrap_err().code(), Some(CANCELLED));
        assert!(start.elapsed() < 30 * SECOND);
    });
}

#[test]
fn increments_of_many_threads_add_up() {
    let server = Server::start(&[]);
    let store = open(&server, "job");
    let mut sums: Vec<i64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| (0..50).map(|_| store.increment(b"n", 2).unwrap()).collect::<Vec<_>>()))
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    sums.sort_unstable();
    assert_eq!(sums, (1..=400).map(|i| 2 * i).collect::<Vec<_>>());
    assert_eq!(store.increment(b"n", -800).unwrap(), 0);
    // A counter is not a key.
    assert_eq!(store.try_get(b"n").unwrap(), None);
}

#[test]
fn jobs_on_one_server_do_not_meet_and_are_forgotten() {
    let server = Server::start(&[]);
    let (one, two) = (open(&server, "one"), open(&server, "two"));
    one.put(b"k", b"1").unwrap();
    assert_eq!((one.increment(b"n", 1).unwrap(), two.increment(b"n", 1).unwrap()), (1, 1));
    assert_eq!(two.try_get(b"k").unwrap(), None);
    let client = redis::Client::open(format!("redis://127.0.0.1:{}", server.port)).unwrap();
    let mut connection = client.get_connection().unwrap();
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut connection).unwrap();
    assert_eq!(keys.len(), 3);
    for key in keys {
        let left: i64 = redis::cmd("TTL").arg(&key).query(&mut connection).unwrap();
        assert!(left > 80_000 && left <= 86_400, "{key}: {left}");
    }
}

#[test]
fn ten_thousand_keys_are_kept_apart() {
    let server = Server::start(&[]);
    let store = open(&server, "job");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let store = &store;
            scope.spawn(move || {
                for i in (thread..10_000u32).step_by(4) {
                    store.put(format!("key {i}").as_bytes(), &i.to_le_bytes()).unwrap();
                }
            });
        }
    });
    for i in 0..10_000u32 {
        assert_eq!(store.try_get(format!("key {i}").as_bytes()).unwrap().unwrap(), i.to_le_bytes());
    }
}

#[test]
fn a_wrong_password_is_refused_and_never_shown() {
    let server = Server::start(&["--requirepass", "s3cret"]);
    let opened = |password: &str| {
        let address = Address::read(&format!("redis://{password}127.0.0.1:{}", server.port)).unwrap();
        RedisStore::open(&address, b"job", &wait(5 * SECOND))
    };
    for password in ["", ":not-s3cret@"] {
        let error = opened(password).unwrap_err();
        assert_eq!(error.code(), Some(UNAUTHENTICATED), "{error}");
        assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
    }
    let store = opened(":s3cret@").unwrap();
    store.put(b"k", b"v").unwrap();
    assert!(!format!("{store:?}").contains("s3cret"), "{store:?}");
}

#[test]
fn a_lost_server_ends_every_call() {
    let mut server = Server::start(&[]);
    let store = open(&server, "job");
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| store.get(b"never", &wait(60 * SECOND)));
        std::thread::sleep(SECOND / 2);
        let start = Instant::now();
        server.kill();
        let error = waiter.join().unwrap().unwrap_err();
        assert_eq!(error.code(), Some(UNAVAILABLE), "{error}");
        assert!(error.message().contains(&format!("redis://127.0.0.1:{}", server.port)), "{error}");
        assert!(start.elapsed() < 30 * SECOND);
    });
    assert_eq!(store.put(b"k", b"v").unwrap_err().code(), Some(UNAVAILABLE));
    assert_eq!(store.try_get(b"k").unwrap_err().code(), Some(UNAVAILABLE));
    assert_eq!(store.increment(b"k", 1).unwrap_err().code(), Some(UNAVAILABLE));
}

#[test]
fn a_server_that_comes_late_or_again_is_found() {
    let port = free_port();
    let address = Address::read(&format!("redis://127.0.0.1:{port}")).unwrap();
    let error = RedisStore::open(&address, b"job", &wait(SECOND / 2)).unwrap_err();
    assert_eq!(error.code(), Some(UNAVAILABLE));
    let (store, mut server) = std::thread::scope(|scope| {
        let opened = scope.spawn(|| RedisStore::open(&address, b"job", &wait(20 * SECOND)));
        std::thread::sleep(SECOND / 2);
        let server = Server::start_on(port, &[]);
        (opened.join().unwrap().unwrap(), server)
    });
    store.put(b"k", b"v").unwrap();
    server.kill();
    let again = Server::start_on(port, &[]);
    RedisStore::open(&address, b"job", &wait(20 * SECOND)).unwrap();
    // The idle connection of `store` was to the first one.
    assert_eq!(store.try_get(b"k").unwrap(), None);
    drop(again);
}

#[test]
fn a_full_server_is_reported() {
    let server = Server::start(&["--maxmemory", "2mb"]);
    let store = open(&server, "job");
    let error = (0..10).find_map(|i: u8| store.put(&[i], &[i; 500_000]).err()).unwrap();
    assert_eq!(error.code(), Some(RESOURCE_EXHAUSTED), "{error}");
}

fn openssl(folder: &std::path::Path, arguments: &str) {
    let made = Command::new("openssl").args(arguments.split(' ')).current_dir(folder).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

#[test]
fn tls_checks_the_certificate() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("certificates");
    std::fs::create_dir_all(&folder).unwrap();
    openssl(&folder, "req -x509 -newkey rsa:2048 -nodes -days 2 -keyout ca.key -out ca.crt -subj /CN=authority");
    openssl(&folder, "req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj /CN=localhost");
    std::fs::write(folder.join("names"), "subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")
        .unwrap();
    openssl(
        &folder,
        "x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -out server.crt -extfile names",
    );
    let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let port = free_port();
    let (crt, key, ca) = (path("server.crt"), path("server.key"), path("ca.crt"));
    let arguments = [
        "--port",
        "0",
        "--tls-port",
        &port.to_string(),
        "--tls-cert-file",
        &crt,
        "--tls-key-file",
        &key,
        "--tls-ca-cert-file",
        &ca,
        "--tls-auth-clients",
        "no",
        "--requirepass",
        "s3cret",
    ];
    let _server = Server::start_on(port, &arguments);
    // The other tests of this process use no TLS and read no variables.
    let open = |name: &str, trusted: &str, seconds: u32| {
        std::env::set_var("SSL_CERT_FILE", trusted);
        let address = Address::read(&format!("rediss://:s3cret@{name}:{port}")).unwrap();
        RedisStore::open(&address, b"job", &wait(seconds * SECOND))
    };
    let store = open("localhost", &ca, 20).unwrap();
    store.put(b"k", b"hidden").unwrap();
    assert_eq!(store.get(b"k", &wait(SECOND)).unwrap(), b"hidden");
    assert_eq!(open("127.0.0.1", &ca, 5).unwrap().try_get(b"k").unwrap().unwrap(), b"hidden");
    // Another authority than the server's.
    openssl(&folder, "req -x509 -newkey rsa:2048 -nodes -days 2 -keyout other.key -out other.crt -subj /CN=other");
    let error = open("localhost", &path("other.crt"), 1).unwrap_err();
    assert!(error.message().to_lowercase().contains("certificate"), "{error}");
}

//! Clients of several processes: the callbacks for the key-value store, with a fake plugin that the C compiler makes, on
//! a real Redis server.

use pjrt_core::client::distributed::Distributed;
use pjrt_core::{Client, Plugin, Value};
use pjrt_store::Address;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/fake-hosts.c");

/// The processes of one job are this one again, with what to do in a variable.
const PLACE: &str = "PJRT_TEST_PLACE";

fn library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fake-hosts.so");
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-pthread", "-o"]).arg(&library).arg(SOURCE);
        assert!(cc.status().unwrap().success());
        library
    })
}

struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start() -> Server {
        let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let arguments = ["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--requirepass", "s3cret"];
        let child = Command::new("redis-server").args(arguments).stdout(Stdio::null()).spawn();
        let server = Server { child: child.expect("redis-server is installed"), port };
        let end = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < end, "the server does not start");
            std::thread::sleep(Duration::from_millis(10));
        }
        server
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts the process of a rank.
fn start(server: &Server, job: u32, rank: usize, size: usize, script: &str, seconds: f64) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "the_process_of_a_rank", "--nocapture"]);
    command.env(PLACE, format!("{} {} {job} {rank} {size} {script} {seconds}", library().display(), server.port));
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// What a process of a rank prints.
fn said(child: Child) -> String {
    let Output { stdout, stderr, .. } = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr);
    assert!(!said.contains("s3cret"), "{said}");
    said
}

fn new_job() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::SeqCst)
}

fn run(server: &Server, size: usize, script: &str) -> Vec<String> {
    let job = new_job();
    let children: Vec<_> = (0..size).map(|rank| start(server, job, rank, size, script, 60.0)).collect();
    children.into_iter().map(said).collect()
}

/// What the other tests start; nothing without the variable.
#[test]
fn the_process_of_a_rank() {
    let Ok(place) = std::env::var(PLACE) else { return };
    let parts: Vec<&str> = place.split(' ').collect();
    let [library, port, job, rank, size, script, seconds] = parts[..] else { panic!("{place}") };
    let plugin = Plugin::load(library.as_ref()).unwrap();
    let place = Distributed {
        rank: rank.parse().unwrap(),
        size: size.parse().unwrap(),
        store: Address::read(&format!("redis://:s3cret@127.0.0.1:{port}")).unwrap(),
        job: job.into(),
        name: "fake".into(),
        timeout: Duration::from_secs_f64(seconds.parse().unwrap()),
    };
    let start = Instant::now();
    let create = || Client::create_distributed(plugin, &[("script".into(), Value::String(script.into()))], &place);
    match create() {
        Ok(client) => {
            let (own, all) = (client.devices().count(), client.all_devices().count());
            println!("created: {}; {own} of {all}, process {}", client.platform_version(), client.process_index());
            // SAFETY: nobody else uses it.
            unsafe { client.close() }.unwrap();
            let again = create().unwrap();
            println!("again: {}", again.platform_version());
        }
        Err(error) => {
            let hints: Vec<_> = error.hints().iter().map(ToString::to_string).collect();
            println!("failed: {:?} {} | {}", error.code(), error.message(), hints.join(" | "));
        }
    }
    println!("took {:.1}", start.elapsed().as_secs_f64());
}

#[test]
fn every_callback_works_in_several_processes_and_for_a_second_client() {
    let server = Server::start();
    for (rank, said) in run(&server, 4, "exchange").into_iter().enumerate() {
        let found = format!("{rank} of 4, wrong 0, absent 5, late 4");
        assert!(said.contains(&format!("created: {found}; 1 of 4, process {rank}")), "{said}");
        assert!(said.contains(&format!("again: {found}")), "{said}");
    }
}

#[test]
fn ten_thousand_keys_reach_every_process() {
    let server = Server::start();
    for said in run(&server, 3, "many") {
        assert!(said.contains("created: wrong 0; ") && said.contains("again: wrong 0"), "{said}");
    }
}

#[test]
fn processes_that_do_not_come_are_named() {
    let server = Server::start();
    let job = new_job();
    let children = [0, 2].map(|rank| start(&server, job, rank, 4, "exchange", 2.0));
    for said in children.map(said) {
        assert!(said.contains("failed: Some(4) Ranks 1, 3 of 4 did not arrive within 2 s."), "{said}");
        assert!(said.contains(&format!("the store redis://127.0.0.1:{} and the job '{job}'", server.port)), "{said}");
    }
}

#[test]
fn a_second_process_of_a_rank_is_refused() {
    let server = Server::start();
    let job = new_job();
    let first = start(&server, job, 0, 2, "exchange", 5.0);
    let id = first.id();
    std::thread::sleep(Duration::from_secs(1));
    let second = said(start(&server, job, 0, 2, "exchange", 5.0));
    assert!(second.contains(&format!("Rank 0 of the job '{job}' has come already: process {id} of 2.")), "{second}");
    assert!(said(first).contains("Rank 1 of 2 did not arrive within 5 s."));
}

#[test]
fn a_lost_process_ends_the_others_in_time() {
    let server = Server::start();
    let job = new_job();
    let mut children: Vec<_> = (0..2).map(|rank| start(&server, job, rank, 2, "never", 4.0)).collect();
    std::thread::sleep(Duration::from_millis(1500));
    // Both wait in the plugin now.
    let mut lost = children.pop().unwrap();
    lost.kill().unwrap();
    lost.wait().unwrap();
    let said = said(children.pop().unwrap());
    assert!(said.contains("failed: Some(4) No process has set the key 'never' in time."), "{said}");
    let took: f64 = said.split("took ").nth(1).unwrap().split_whitespace().next().unwrap().parse().unwrap();
    assert!((3.5..8.0).contains(&took), "{said}");
}

#[test]
fn a_lost_server_ends_the_creation_at_once() {
    let mut server = Server::start();
    let job = new_job();
    let children: Vec<_> = (0..2).map(|rank| start(&server, job, rank, 2, "never", 60.0)).collect();
    std::thread::sleep(Duration::from_secs(2));
    let start = Instant::now();
    server.kill();
    for said in children.into_iter().map(said) {
        assert!(said.contains("failed: Some(14) The store redis://127.0.0.1:"), "{said}");
    }
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[test]
fn the_failure_of_the_store_is_added_to_a_vague_error() {
    let server = Server::start();
    let said = said(start(&server, new_job(), 0, 1, "vague", 20.0));
    assert!(
        said.contains("failed: Some(13) Something failed. | No process has set the key 'never' in time."),
        "{said}"
    );
}

#[test]
fn a_server_that_never_comes_or_refuses_is_reported() {
    let mut server = Server::start();
    let place = |address: &str| Distributed {
        rank: 0,
        size: 1,
        store: Address::read(address).unwrap(),
        job: "j".into(),
        name: "fake".into(),
        timeout: Duration::from_secs(1),
    };
    let plugin = Plugin::load(library()).unwrap();
    let port = server.port;
    let failed = |address: String| Client::create_distributed(plugin, &[], &place(&address)).unwrap_err();
    assert_eq!(failed(format!("redis://:s3cre@127.0.0.1:{port}")).code(), Some(16));
    server.kill();
    let error = failed(format!("redis://:s3cret@127.0.0.1:{port}"));
    assert_eq!(error.code(), Some(14), "{error}");
    assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
}

#[test]
fn without_a_place_the_plugin_gets_no_callbacks() {
    let plugin = Plugin::load(library()).unwrap();
    let client = Client::create(plugin, &[]).unwrap();
    assert_eq!(client.platform_version(), "alone");
}

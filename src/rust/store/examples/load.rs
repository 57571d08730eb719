//! The load of a large job's start on one Redis server: `load RANKS CONNECTIONS`. Each rank sets three keys, counts itself,
//! waits for the last, and reads two keys of each of its two neighbours. Ranks share connections.

use pjrt_store::{wait, Address, RedisStore, Store};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

fn main() {
    let numbers: Vec<usize> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let (ranks, connections) = (numbers.first().map_or(1000, |&n| n), numbers.get(1).map_or(100, |&n| n));
    let port = TcpListener::bind(("127.0.0.1", 0)).and_then(|socket| socket.local_addr()).expect("a port").port();
    let mut server = Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--maxclients", "20000"])
        .stdout(Stdio::null())
        .spawn()
        .expect("redis-server is installed");
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let address = Address::read(&format!("redis://127.0.0.1:{port}")).expect("an address");
    let barrier = Barrier::new(connections);
    let start = Instant::now();
    let run = |thread: usize| {
        let mut times = Vec::new();
        let store = RedisStore::open(&address, b"load", &wait(LIMIT)).expect("a connection");
        let opened = start.elapsed();
        barrier.wait();
        let begin = Instant::now();
        let mut timed = |work: &dyn Fn()| {
            let before = Instant::now();
            work();
            times.push(before.elapsed().as_secs_f64());
        };
        let key = |rank: usize, part: usize| format!("rank/{rank}/{part}").into_bytes();
        for rank in (thread..ranks).step_by(connections) {
            for part in 0..3 {
                timed(&|| store.put(&key(rank, part), &[part as u8; 200]).expect("put"));
            }
            timed(&|| {
                if store.increment(b"arrived", 1).expect("increment") == ranks as i64 {
                    store.put(b"all", b"").expect("put");
                }
            });
        }
        store.get(b"all", &wait(LIMIT)).expect("all have come");
        for rank in (thread..ranks).step_by(connections) {
            timed(&|| drop(store.get(b"all", &wait(LIMIT)).expect("all have come")));
            for neighbour in [(rank + 1) % ranks, (rank + ranks - 1) % ranks] {
                for part in 0..2 {
                    timed(&|| drop(store.get(&key(neighbour, part), &wait(LIMIT)).expect("a neighbour's key")));
                }
            }
        }
        (times, opened, begin.elapsed())
    };
    let run = &run;
    let (mut times, mut opened, mut took) = (Vec::new(), Duration::ZERO, Duration::ZERO);
    std::thread::scope(|scope| {
        let builder = || std::thread::Builder::new().stack_size(256 << 10);
        let start = |thread: usize| builder().spawn_scoped(scope, move || run(thread)).expect("a thread");
        let threads: Vec<_> = (0..connections).map(start).collect();
        for thread in threads {
            let (its, open, whole) = thread.join().expect("a rank's thread");
            times.extend(its);
            (opened, took) = (opened.max(open), took.max(whole));
        }
    });
    times.sort_by(f64::total_cmp);
    let at = |share: f64| 1e3 * times[((times.len() - 1) as f64 * share) as usize];
    println!(
        "{ranks} ranks, {connections} connections: connected in {:.2} s; {} calls in {:.2} s, {:.0} a second; \
         a call took {:.2} ms (median), {:.1} ms (99 %), {:.1} ms (longest)",
        opened.as_secs_f64(),
        times.len(),
        took.as_secs_f64(),
        times.len() as f64 / took.as_secs_f64(),
        at(0.5),
        at(0.99),
        at(1.0)
    );
    let _ = server.kill();
    let _ = server.wait();
}

//! The store over MPI, in groups of processes that the launchers of Open MPI and MPICH start.

use pjrt_mpi::{world, BoardStore};
use pjrt_store::{wait, Patience, Store, CANCELLED, DEADLINE_EXCEEDED, INVALID_ARGUMENT, MAX_VALUE, UNAVAILABLE};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);

/// The processes are this one again, with what to do in a variable.
const SCRIPT: &str = "PJRT_TEST_SCRIPT";

/// Runs a script in `n` processes of each launcher. All must end well, and each must say "right".
fn run(n: usize, script: &str) {
    for launcher in ["mpirun.openmpi", "mpirun.mpich"] {
        let mut command = Command::new(launcher);
        command.args(["-n", &n.to_string()]).arg(std::env::current_exe().unwrap());
        command.args(["--exact", "a_process", "--nocapture"]).env(SCRIPT, script);
        // As root, and with more processes than processors.
        for (name, value) in [
            ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
            ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
            ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
            // Open MPI 5 and 6 read one of these; the tests do not look at warnings.
            ("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"),
            ("PRTE_MCA_mapby", ":oversubscribe"),
            ("OMPI_MCA_btl_vader_single_copy_mechanism", "none"),
            // MPI itself never frees all.
            ("LSAN_OPTIONS", "detect_leaks=0"),
        ] {
            command.env(name, value);
        }
        let Output { status, stdout, stderr } = command.output().expect("both launchers are installed");
        let said = String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr);
        assert!(status.success(), "{launcher}: {said}");
        assert_eq!(said.matches("right").count(), n, "{launcher}: {said}");
    }
}

fn open(prefix: &str) -> BoardStore {
    world::store(prefix.as_bytes(), &wait(20 * SECOND)).unwrap()
}

/// A time in which each process may be late.
fn lag(rank: usize) {
    std::thread::sleep(Duration::from_millis(37 * rank as u64 % 100));
}

/// Waits until all have come here.
fn barrier(store: &BoardStore, name: &str, size: usize) {
    if store.increment(name.as_bytes(), 1).unwrap() == size as i64 {
        store.put(format!("{name} all").as_bytes(), b"").unwrap();
    }
    store.get(format!("{name} all").as_bytes(), &wait(20 * SECOND)).unwrap();
}

fn values(rank: usize, size: usize) {
    let (one, two) = (open("one"), open("two"));
    let all: Vec<u8> = (0..=255).collect();
    let large: Vec<u8> = (0..8 << 20).map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let values: [&[u8]; 5] = [b"", b"\0", b"a\0b\r\n", &all, &large];
    for (i, value) in values.iter().enumerate() {
        let key = |rank: usize| [&[0, 255, i as u8, rank as u8], &all[..]].concat();
        if i % 2 == 0 {
            lag(rank);
        }
        one.put(&key(rank), value).unwrap();
        assert!(one.try_get(&key(rank)).unwrap().unwrap() == *value);
        for other in 0..size {
            assert!(one.get(&key(other), &wait(20 * SECOND)).unwrap() == *value);
            assert_eq!(two.try_get(&key(other)).unwrap(), None);
        }
    }
    // No memory for it is touched.
    let error = one.put(b"k", &vec![0; MAX_VALUE + 1]).unwrap_err();
    assert_eq!(error.code(), Some(INVALID_ARGUMENT));
}

fn agreement(rank: usize, size: usize) {
    let store = open("job");
    for round in 0..100 {
        store.put(b"k", format!("{round} of {rank}").as_bytes()).unwrap();
        if round % 9 == rank {
            lag(round);
        }
    }
    barrier(&store, "written", size);
    let last = store.try_get(b"k").unwrap().unwrap();
    assert!(last.starts_with(b"99 of "));
    store.put(format!("last {rank}").as_bytes(), &last).unwrap();
    for other in 0..size {
        assert_eq!(store.get(format!("last {other}").as_bytes(), &wait(20 * SECOND)).unwrap(), last);
    }
}

fn increments(rank: usize, size: usize) {
    let store = open("job");
    let sums: Vec<i64> = std::thread::scope(|scope| {
        let thread = || (0..20).map(|_| store.increment(b"n", 2).unwrap()).collect::<Vec<_>>();
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(thread)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let text: Vec<String> = sums.iter().map(ToString::to_string).collect();
    store.put(format!("sums {rank}").as_bytes(), text.join(" ").as_bytes()).unwrap();
    let mut all: Vec<i64> = Vec::new();
    for other in 0..size {
        let text = store.get(format!("sums {other}").as_bytes(), &wait(20 * SECOND)).unwrap();
        all.extend(String::from_utf8(text).unwrap().split(' ').map(|number| number.parse::<i64>().unwrap()));
    }
    all.sort_unstable();
    assert_eq!(all, (1..=60 * size as i64).map(|i| 2 * i).collect::<Vec<_>>());
    // A counter is not a key.
    assert_eq!(store.try_get(b"n").unwrap(), None);
    barrier(&store, "read", size);
}

fn many(rank: usize, size: usize) {
    let store = open("job");
    for i in (rank as u32..10_000).step_by(size) {
        store.put(format!("key {i}").as_bytes(), &i.to_le_bytes()).unwrap();
    }
    for i in 0..10_000u32 {
        assert_eq!(store.get(format!("key {i}").as_bytes(), &wait(30 * SECOND)).unwrap(), i.to_le_bytes());
    }
}

fn waits(rank: usize, size: usize) {
    let store = open("job");
    for milliseconds in [0, 1, 300] {
        let (start, time) = (Instant::now(), Duration::from_millis(milliseconds));
        let error = store.get(b"absent", &wait(time)).unwrap_err();
        assert_eq!(error.code(), Some(DEADLINE_EXCEEDED));
        assert!(error.message().contains("'absent'"), "{error}");
        assert!(start.elapsed() >= time);
    }
    let is_cancelled = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let wait = || store.get(b"absent", &Patience::new(60 * SECOND, &|| is_cancelled.load(Ordering::SeqCst)));
        let waiter = scope.spawn(wait);
        std::thread::sleep(SECOND / 5);
        is_cancelled.store(true, Ordering::SeqCst);
        assert_eq!(waiter.join().unwrap().unwrap_err().code(), Some(CANCELLED));
    });
    // Those that wait get what comes late.
    std::thread::scope(|scope| {
        let waiters: Vec<_> =
            (0..20).map(|_| scope.spawn(|| store.get(b"late", &wait(20 * SECOND)).unwrap())).collect();
        if rank == size - 1 {
            std::thread::sleep(SECOND / 4);
            store.put(b"late", b"now").unwrap();
        }
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), b"now");
        }
    });
}

/// Waits for all processes without the store.
fn all_come() {
    let (report, done) = std::sync::mpsc::channel();
    world::submit(Box::new(move |mpi| report.send(mpi.unwrap().barrier(&[])).unwrap()));
    done.recv().unwrap().unwrap();
}

/// Some processes open no store before the others have given up once.
fn late(first_late: usize, rank: usize) {
    if rank < first_late {
        let error = world::store(b"job", &wait(SECOND / 5)).unwrap_err();
        assert_eq!(error.code(), Some(DEADLINE_EXCEEDED), "{error}");
    }
    all_come();
}

/// What the other tests start; nothing without the variable.
#[test]
fn a_process() {
    let Ok(script) = std::env::var(SCRIPT) else { return };
    let (facts, _) = world::start(None).unwrap();
    let (rank, size) = (facts.rank, facts.size);
    match script.as_str() {
        "values" => values(rank, size),
        "agreement" => agreement(rank, size),
        "increments" => increments(rank, size),
        "many" => many(rank, size),
        "waits" => waits(rank, size),
        "late" => late(2, rank),
        "lonely" => late(1, rank),
        other => panic!("{other}"),
    }
    let store = if script == "lonely" { None } else { Some(open("last")) };
    world::finish().unwrap();
    if let Some(store) = store {
        assert_eq!(store.put(b"k", b"v").unwrap_err().code(), Some(UNAVAILABLE));
        assert_eq!(store.increment(b"k", 1).unwrap_err().code(), Some(UNAVAILABLE));
    }
    println!("right");
}

#[test]
fn keys_and_values_are_any_bytes() {
    run(3, "values");
}

#[test]
fn all_processes_agree_on_a_key_that_all_set() {
    run(4, "agreement");
}

#[test]
fn increments_of_many_threads_and_processes_add_up() {
    run(3, "increments");
}

#[test]
fn ten_thousand_keys_reach_every_process() {
    run(3, "many");
}

#[test]
fn a_wait_ends_in_time_or_when_it_is_cancelled() {
    run(2, "waits");
}

#[test]
fn a_process_that_comes_late_is_found_and_one_that_never_comes_is_not_waited_for() {
    run(3, "late");
    run(2, "lonely");
}

#[test]
fn a_process_that_was_started_alone_has_a_store() {
    run(1, "values");
}

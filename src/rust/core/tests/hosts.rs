//! Clients of several processes: the callbacks for the key-value store, and programs for devices of all processes, with a
//! fake plugin that the C compiler makes, on a real Redis server.

#![cfg(unix)]

use pjrt_base::error::Result;
use pjrt_core::cache::Cache;
use pjrt_core::client::distributed::Distributed;
use pjrt_core::client::shared_store::SharedStore;
use pjrt_core::client::topology::{AbsentTopology, System};
use pjrt_core::compile::queue::compile_for;
use pjrt_core::executable::execute::{Dispatch, ExecuteOptions};
use pjrt_core::executable::options::CompileOptions;
use pjrt_core::executable::serialized::{Destination, Serialized};
use pjrt_core::executable::Placement;
use pjrt_core::{compile, Buffer, Client, Device, Executable, Plugin, PluginValue};
use pjrt_data::array::Spec;
use pjrt_data::dtype::DType;
use pjrt_ir::hlo::{HloModuleProto, ProgramShapeProto, ShapeProto};
use pjrt_program::program::{Format, Program};
use prost::Message;
use server::Server;
use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

#[path = "../../store/tests/server/mod.rs"]
mod server;

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

/// A server with the password of these tests.
fn new_server() -> Server {
    Server::start(&["--requirepass", "s3cret"])
}

/// Starts the process of a rank.
fn start(server: &Server, job: u32, rank: usize, size: usize, script: &str, seconds: f64) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "the_process_of_a_rank", "--nocapture"]);
    command.env(PLACE, format!("{} {} {job} {rank} {size} {script} {seconds}", library().display(), server.port));
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Runs a command of Redis and returns what it says.
fn redis(server: &Server, command: &[&str]) -> String {
    let mut cli = Command::new("redis-cli");
    cli.args(["-p", &server.port.to_string()]).args(command).env("REDISCLI_AUTH", "s3cret");
    let Output { status, stdout, .. } = cli.output().unwrap();
    assert!(status.success());
    String::from_utf8(stdout).unwrap()
}

fn wait_for_keys(server: &Server, count: usize) {
    let end = Instant::now() + Duration::from_secs(60);
    while redis(server, &["dbsize"]).trim().parse::<usize>().unwrap() < count {
        assert!(Instant::now() < end, "{count} keys are not set");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until processes have arrived. Each sets two keys, and counts itself in another.
fn wait_for_arrivals(server: &Server, count: usize) {
    wait_for_keys(server, 2 * count + 1);
}

/// Waits until all processes of a job are in the plugin with the script "never". The last that arrives sets a key after it
/// has counted itself, and each sets one in the plugin.
fn wait_for_plugins(server: &Server, size: usize) {
    wait_for_keys(server, 2 * size + 1 + 1 + size);
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
        store: SharedStore::read(&format!("redis://:s3cret@127.0.0.1:{port}")).unwrap(),
        job: job.into(),
        name: "fake".into(),
        timeout: Duration::from_secs_f64(seconds.parse().unwrap()),
    };
    let start = Instant::now();
    if let "sum" | "reversed" = script {
        return run_programs(plugin, script, &place);
    }
    let create =
        || Client::create_distributed(plugin, &[("script".into(), PluginValue::String(script.into()))], &place);
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

/// A program that adds an array of two numbers on all devices.
fn sum() -> Program {
    let shape = ShapeProto { element_type: DType::F32.info().code as i32, dimensions: vec![2], ..Default::default() };
    let host_program_shape =
        ProgramShapeProto { parameters: vec![shape.clone()], result: Some(shape), ..Default::default() };
    let module =
        HloModuleProto { name: "sum".into(), host_program_shape: Some(host_program_shape), ..Default::default() };
    Program::new(module.encode_to_vec(), Format::Hlo).unwrap()
}

/// Runs a program on its devices of this process, which have their ids as numbers. The first number of an output is 1000 for
/// each device before its own, and the sum.
fn run_program(program: &Executable) -> Result<String> {
    let Placement::Fixed(devices) = program.placement() else { panic!("it is portable") };
    let devices: Vec<Device> = devices.iter().map(|&index| program.client().devices().nth(index).unwrap()).collect();
    let spec = Spec::new(DType::F32, &[2]).unwrap();
    let buffer = |device: &Device| {
        let numbers = [device.id() as f32, 0.5];
        Buffer::from_bytes(device, spec.clone(), &numbers.map(f32::to_ne_bytes).concat()).unwrap()
    };
    let inputs: Vec<Buffer> = devices.iter().map(buffer).collect();
    let lists: Vec<[&Buffer; 1]> = inputs.iter().map(|input| [input]).collect();
    let lists: Vec<&[&Buffer]> = lists.iter().map(|list| &list[..]).collect();
    let options = ExecuteOptions::default();
    let outputs = match lists[..] {
        [one] if program.assigned().len() == 2 => vec![program.execute(one, &options)?],
        _ => program.execute_sharded(&lists, &options)?,
    };
    let numbers = |output: &Buffer| {
        let ready = output.wait()?;
        let view = ready.view()?;
        let numbers = view.bytes().chunks(4).map(|number| f32::from_ne_bytes(number.try_into().unwrap()));
        Ok(numbers.map(|number| number.to_string()).collect::<Vec<_>>().join(" "))
    };
    let found = outputs.iter().map(|list| numbers(&list[0])).collect::<Result<Vec<_>>>()?;
    Ok(format!("at {:?} of {}: {}", program.positions(), program.assigned().len(), found.join(", ")))
}

/// What every process of a job does with two devices of each.
fn run_programs(plugin: &'static Plugin, script: &str, place: &Distributed) {
    let options = [("script".into(), PluginValue::String(script.into())), ("each".into(), PluginValue::Int(2))];
    let client = Client::create_distributed(plugin, &options, place).unwrap();
    let of_ids = |ids: &[i32]| -> Vec<Device> {
        ids.iter().map(|&id| client.all_devices().find(|device| device.id() == id).unwrap()).collect()
    };
    let program = sum();
    let replicas = |count| CompileOptions { num_replicas: Some(count), ..Default::default() };
    let compiled = |ids: &[i32]| compile::compile(None, &of_ids(ids), &program, &replicas(ids.len() as i64));
    for ids in [&[3, 0, 2, 1][..], &[0, 2], &[2, 0, 1]] {
        println!("{ids:?}: {}", run_program(&compiled(ids).unwrap()).unwrap());
    }
    let partitions = CompileOptions { num_replicas: Some(2), num_partitions: Some(2), ..Default::default() };
    let by_default = partitions.assigned_devices(&client).unwrap();
    let all = compile::compile(None, &by_default, &program, &partitions).unwrap();
    println!("default: {}", run_program(&all).unwrap());

    let four = [("devices".into(), PluginValue::Int(4)), ("processes".into(), PluginValue::Int(2))];
    let absent = System::Absent(Arc::new(AbsentTopology::create(plugin, "fake", "absent", &four).unwrap()));
    let unloaded = compile_for(&absent, &program, &partitions, None).unwrap();
    let of = &unloaded.signature;
    println!("unloaded: {} {} {:?}", of.name, of.inputs[0].spec, unloaded.counts);

    let others = [2 - 2 * place.rank as i32, 3 - 2 * place.rank as i32];
    let pair = compiled(&[0, 2]).unwrap().serialize(None).unwrap();
    let load = |saved: &[u8], devices: &[Device]| {
        let destination = Destination { client: &client, devices, options: None, dispatch: Dispatch::Auto };
        Serialized::read(saved)?.load(&destination, None)
    };
    for refused in [compiled(&others), compiled(&others[..1]), load(&pair, &of_ids(&others))] {
        let error = refused.unwrap_err();
        let hint = error.hints().first().map(ToString::to_string).unwrap_or_default();
        println!("refused: {:?} {} {hint}", error.kind(), error.message());
    }
    let error = all.execute_sharded(&[], &ExecuteOptions::default()).unwrap_err();
    println!("no inputs: {:?} {}", error.kind(), error.message());
    let error = all.execute(&[], &ExecuteOptions::default()).unwrap_err();
    println!("one device: {:?} {}", error.kind(), error.message());

    let cache = Cache::new(&shared_cache(parent_id(), script), 1 << 20, Arc::default());
    for ids in [[0, 3], [3, 0], [0, 3]] {
        let made = compile::compile(Some(&cache), &of_ids(&ids), &program, &replicas(2)).unwrap();
        println!("cache {ids:?}: {:?} {}", made.origin(), run_program(&made).unwrap());
    }
    let saved = all.serialize(None).unwrap();
    println!("loaded: {}", run_program(&load(&saved, &[]).unwrap()).unwrap());
    println!("compiled elsewhere: {}", run_program(&load(&unloaded.container, &[]).unwrap()).unwrap());
    println!("moved: {}", run_program(&load(&saved, &of_ids(&[3, 2, 1, 0])).unwrap()).unwrap());
}

/// The folder of the cache that all processes of a job use.
fn shared_cache(parent: u32, script: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cache-{parent}-{script}"))
}

#[test]
fn programs_run_on_the_devices_of_every_process() {
    let server = new_server();
    // Of three and of four devices, for each process.
    let sums = [["3 1.5, 1003 1.5", "6 2, 1006 2"], ["2003 1.5", "2006 2, 3006 2"]];
    let places = [["[1, 3]", "[1, 2]", "[0, 1]", "[2, 3]"], ["[0, 2]", "[0]", "[2, 3]", "[0, 1]"]];
    let turned = |list: &str| -> String {
        let inner = list.trim_start_matches('[').trim_end_matches(']');
        let parts: Vec<_> = inner.rsplit(", ").collect();
        if list.starts_with('[') {
            format!("[{}]", parts.join(", "))
        } else {
            parts.join(", ")
        }
    };
    for script in ["sum", "reversed"] {
        for (rank, said) in run(&server, 2, script).into_iter().enumerate() {
            let in_order = |list: &str| if script == "sum" { list.to_owned() } else { turned(list) };
            let [at_first, at_three, at_all, at_moved] = places[rank].map(in_order);
            let (three, four, backwards) =
                (in_order(sums[rank][0]), in_order(sums[rank][1]), in_order(&turned(sums[rank][1])));
            let (own, other, one) = (rank, 1 - rank, ["3 1", "3003 1"][rank]);
            for line in [
                format!("[3, 0, 2, 1]: at {at_first} of 4: {}", if rank == 0 { &four } else { &backwards }),
                format!("[0, 2]: at [{own}] of 2: {}", ["2 1", "2002 1"][rank]),
                format!("[2, 0, 1]: at {at_three} of 3: {three}"),
                format!("default: at {at_all} of 4: {four}"),
                "refused: DeviceMismatch None of the 2 devices belongs to this process: it cannot run the program. This \
                 process can use: "
                    .to_owned()
                    + ["fake 0, fake 1.", "fake 2, fake 3."][rank],
                format!("refused: DeviceMismatch fake {} belongs to process {other}: this process", 2 * other),
                "no inputs: ArgumentCount The program runs on 2 of its 4 devices in this process, but got inputs for 0.".into(),
                "one device: InvalidInput The program runs on 2 of its 4 devices in this process.".into(),
                format!("cache [0, 3]: Missed at [{own}] of 2: {one}"),
                format!("cache [3, 0]: Missed at [{other}] of 2: {one}"),
                format!("cache [0, 3]: Cache at [{own}] of 2: {one}"),
                format!("loaded: at {at_all} of 4: {four}"),
                "unloaded: sum f32[2] (2, 2)".into(),
                format!("compiled elsewhere: at {at_all} of 4: {four}"),
                format!("moved: at {at_moved} of 4: {backwards}"),
            ] {
                assert!(said.contains(&line), "{line}\n{said}");
            }
            assert_eq!(said.matches("refused: DeviceMismatch None of the 2").count(), 2, "{said}");
        }
        std::fs::remove_dir_all(shared_cache(std::process::id(), script)).unwrap();
    }
}

fn absent(name: &str) -> System {
    let plugin = Plugin::load(library()).unwrap();
    let options = [("devices".into(), PluginValue::Int(2))];
    System::Absent(Arc::new(AbsentTopology::create(plugin, "fake", name, &options).unwrap()))
}

#[test]
fn programs_are_compiled_for_the_devices_of_a_topology_or_not_at_all() {
    let compiled = |name: &str, options: &CompileOptions| compile_for(&absent(name), &sum(), options, None);
    let default = CompileOptions::default();
    let unloaded = compiled("far", &default).unwrap();
    assert_eq!((unloaded.target.platform.as_str(), unloaded.target.device_kind.as_str()), ("fake", "fake device"));
    assert_eq!(unloaded.target.platform_version, "");
    assert!(Serialized::read(&unloaded.container).is_ok());
    let error = compiled("broken", &default).unwrap_err();
    assert_eq!((error.code(), error.message()), (Some(3), "The program is not for this topology."));
    let three = CompileOptions { num_replicas: Some(3), ..Default::default() };
    let error = compiled("far", &three).unwrap_err();
    assert!(error.message().contains("needs 3 devices, but the topology has 2."), "{error}");
    let other = CompileOptions { device_assignment: Some(vec![7]), ..Default::default() };
    let error = compiled("far", &other).unwrap_err();
    assert!(error.message().contains("the id 7, which no device of the topology has. Device ids: 0, 1."), "{error}");
    let second = CompileOptions { device_assignment: Some(vec![1]), ..Default::default() };
    assert!(compiled("far", &second).is_ok());
}

#[test]
fn every_callback_works_in_several_processes_and_for_a_second_client() {
    let server = new_server();
    for (rank, said) in run(&server, 4, "exchange").into_iter().enumerate() {
        let found = format!("{rank} of 4, wrong 0, absent 5, late 4");
        assert!(said.contains(&format!("created: {found}; 1 of 4, process {rank}")), "{said}");
        assert!(said.contains(&format!("again: {found}")), "{said}");
    }
}

#[test]
fn ten_thousand_keys_reach_every_process() {
    let server = new_server();
    for said in run(&server, 3, "many") {
        assert!(said.contains("created: wrong 0; ") && said.contains("again: wrong 0"), "{said}");
    }
}

#[test]
fn processes_that_do_not_come_are_named() {
    let server = new_server();
    let job = new_job();
    let children = [0, 2].map(|rank| start(&server, job, rank, 4, "exchange", 5.0));
    for said in children.map(said) {
        assert!(said.contains("failed: Some(4) Ranks 1, 3 of 4 did not arrive within 5 s."), "{said}");
        assert!(said.contains(&format!("the store redis://127.0.0.1:{} and the job '{job}'", server.port)), "{said}");
    }
}

#[test]
fn a_second_process_of_a_rank_is_refused() {
    let server = new_server();
    let job = new_job();
    let first = start(&server, job, 0, 2, "exchange", 5.0);
    let id = first.id();
    wait_for_arrivals(&server, 1);
    let second = said(start(&server, job, 0, 2, "exchange", 5.0));
    assert!(second.contains(&format!("Rank 0 of the job '{job}' has already joined: process {id} of 2.")), "{second}");
    assert!(said(first).contains("Rank 1 of 2 did not arrive within 5 s."));
}

#[test]
fn a_lost_process_ends_the_others_in_time() {
    let server = new_server();
    let job = new_job();
    let mut children: Vec<_> = (0..2).map(|rank| start(&server, job, rank, 2, "never", 6.0)).collect();
    wait_for_plugins(&server, 2);
    let mut lost = children.pop().unwrap();
    lost.kill().unwrap();
    lost.wait().unwrap();
    let said = said(children.pop().unwrap());
    assert!(said.contains("failed: Some(4) No process has set the key 'never' in time."), "{said}");
    let took: f64 = said.split("took ").nth(1).unwrap().split_whitespace().next().unwrap().parse().unwrap();
    assert!((5.5..60.0).contains(&took), "{said}");
}

#[test]
fn a_lost_server_ends_the_creation_at_once() {
    let mut server = new_server();
    let job = new_job();
    let children: Vec<_> = (0..2).map(|rank| start(&server, job, rank, 2, "never", 60.0)).collect();
    wait_for_plugins(&server, 2);
    let start = Instant::now();
    server.kill();
    for said in children.into_iter().map(said) {
        assert!(said.contains("failed: Some(14) The store redis://127.0.0.1:"), "{said}");
    }
    // Long before their time is up.
    assert!(start.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_server_that_falls_silent_is_named() {
    let server = new_server();
    let child = start(&server, new_job(), 0, 2, "never", 5.0);
    wait_for_arrivals(&server, 1);
    redis(&server, &["client", "pause", "60000"]);
    let said = said(child);
    let words =
        format!("failed: Some(4) The store redis://127.0.0.1:{} has not answered within 5 s. | Check", server.port);
    assert!(said.contains(&words), "{said}");
}

#[test]
fn the_failure_of_the_store_is_added_to_a_vague_error() {
    let server = new_server();
    let said = said(start(&server, new_job(), 0, 1, "vague", 20.0));
    assert!(
        said.contains("failed: Some(13) Something failed. | No process has set the key 'never' in time."),
        "{said}"
    );
}

#[test]
fn a_server_that_never_comes_or_refuses_is_reported() {
    let mut server = new_server();
    let place = |address: &str| Distributed {
        rank: 0,
        size: 1,
        store: SharedStore::read(address).unwrap(),
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

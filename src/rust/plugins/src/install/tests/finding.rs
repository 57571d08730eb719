//! Which index is used, and which of its files.

use super::super::address::{self, redact};
use super::super::page::{self, Link};
use super::super::{index, pip};
use super::*;
use pjrt_base::error::Kind;
use reqwest::Url;

fn find(argument: Option<&str>, machine: &Invented) -> Result<String> {
    let mut go_on = |_, _| true;
    index::find(argument, machine, &mut Watch::new(&mut go_on)).map(|(url, _)| url.to_string())
}

fn found(machine: &Invented) -> String {
    find(None, machine).unwrap()
}

#[test]
fn the_nearest_setting_wins() {
    let mut machine = Invented { pip: Some("https://pip.test/simple"), ..Invented::default() };
    assert_eq!(found(&machine), "https://pip.test/simple");
    machine.files.insert("/etc/pip.conf", "[global]\nindex-url = https://conf.test/simple\n");
    assert_eq!(found(&machine), "https://conf.test/simple");
    machine.variables.insert("UV_DEFAULT_INDEX", "mine=https://uv.test/simple?a=b");
    assert_eq!(found(&machine), "https://uv.test/simple?a=b");
    machine.variables.insert("PIP_INDEX_URL", "https://pipvar.test/simple");
    assert_eq!(found(&machine), "https://pipvar.test/simple");
    machine.variables.insert("PJRT_INDEX_URL", " https://pjrt.test/simple ");
    assert_eq!(found(&machine), "https://pjrt.test/simple");
    assert_eq!(find(Some("https://argument.test"), &machine).unwrap(), "https://argument.test/");
    assert_eq!(find(Some(""), &machine).unwrap(), "https://pjrt.test/simple");
}

#[test]
fn uv_may_give_a_url_without_a_name() {
    let mut machine = Invented::default();
    machine.variables.insert("UV_DEFAULT_INDEX", "https://uv.test/simple?a=b");
    assert_eq!(found(&machine), "https://uv.test/simple?a=b");
}

#[test]
fn a_missing_index_raises_an_error_that_says_what_to_install_or_set() {
    let error = find(None, &Invented::default()).unwrap_err();
    assert_eq!(error.kind(), Kind::Download);
    assert!(error.to_string().contains("PJRT_INDEX_URL") && error.to_string().contains("Install pip"));
}

#[test]
fn an_invalid_url_is_refused_by_name_without_its_password() {
    let mut machine = Invented::default();
    for bad in ["ftp://user:secret@host.test/", "user:secret@host.test/simple", "simple"] {
        machine.variables.insert("PIP_INDEX_URL", bad);
        let error = find(None, &machine).unwrap_err();
        assert_eq!(error.kind(), Kind::Download);
        assert!(error.message().starts_with("PIP_INDEX_URL is "), "{error}");
        assert!(!error.to_string().contains("secret") && !error.to_string().contains("user"), "{error}");
    }
}

#[test]
fn pip_configuration_is_read_like_pip_does() {
    let mut machine = Invented::default();
    machine.variables.extend([("HOME", "/home/me"), ("VIRTUAL_ENV", "/venv"), ("PIP_CONFIG_FILE", "/named.conf")]);
    let setting = |machine: &Invented| index::pip_setting(machine, "index-url");
    assert_eq!(setting(&machine), None);
    machine.files.insert("/etc/xdg/pip/pip.conf", "[global]\nindex_url: https://xdg.test\n");
    assert_eq!(setting(&machine).unwrap(), "https://xdg.test");
    machine
        .files
        .insert("/home/me/.pip/pip.conf", "index-url = https://outside.test\n[global]\nINDEX-URL=https://old.test");
    assert_eq!(setting(&machine).unwrap(), "https://old.test");
    machine.files.insert(
        "/home/me/.config/pip/pip.conf",
        "[global]\n# index-url = https://no.test\nindex-url =\n  https://user.test\n",
    );
    assert_eq!(setting(&machine).unwrap(), "https://user.test");
    machine
        .files
        .insert("/venv/pip.conf", "[list]\nindex-url = https://no.test\n[global]\nindex-url = https://venv.test\n");
    assert_eq!(setting(&machine).unwrap(), "https://venv.test");
    machine.files.insert("/named.conf", "[global]\nindex-url = https://named.test\n");
    assert_eq!(setting(&machine).unwrap(), "https://named.test");
    machine.files.insert("/etc/pip.conf", "[install]\nindex-url = https://install.test\n");
    assert_eq!(setting(&machine).unwrap(), "https://install.test");
    machine.files.insert(
        "/etc/pip.conf",
        "[install]\nindex-url = https://install.test\n[download]\nindex-url = https://down.test",
    );
    assert_eq!(setting(&machine).unwrap(), "https://down.test");
    machine.variables.insert("PIP_CONFIG_FILE", "/dev/null");
    assert_eq!(setting(&machine), None);
}

#[test]
fn the_default_index_is_read_from_pips_help() {
    let wrapped = "Package Index Options:\n  -i, --index-url <url>       Base URL of the Index (default\n\
                   \x20                             https://index.test/simple). This should point to a\n    repository\n\
                   --extra-index-url <url>  Extra (default https://no.test/)";
    assert_eq!(pip::parse_help(wrapped).unwrap(), "https://index.test/simple");
    let broken = "--index-url, --pypi-url <url>  Base URL (default: https://an-\n      index.test/simple/)";
    assert_eq!(pip::parse_help(broken).unwrap(), "https://an-index.test/simple/");
    assert_eq!(pip::parse_help("--index-url <url> Base URL. --timeout <sec> (default 15 seconds)"), None);
    assert_eq!(pip::parse_help("No module named pip"), None);
}

#[test]
fn no_secret_of_a_url_is_shown() {
    for (url, shown) in [
        ("https://host.test/simple", "https://host.test/simple"),
        ("https://user:pass@host.test/simple", "https://***@host.test/simple"),
        ("https://user:p@ss/w@host.test/simple", "https://***@host.test/simple"),
        ("https://token@host.test", "https://***@host.test"),
        ("https://host.test/a.whl?token=secret#sha256=1", "https://host.test/a.whl"),
        ("user:pass@host.test", "***@host.test"),
        ("", ""),
    ] {
        assert_eq!(redact(url), shown);
    }
}

#[test]
fn a_login_is_sent_only_to_its_own_server() {
    let index = Url::parse("https://me:a%40b@host.test/simple").unwrap();
    let lent = |text| {
        let mut url = Url::parse(text).unwrap();
        address::lend_login(&index, &mut url);
        url.to_string()
    };
    assert_eq!(lent("https://host.test/f.whl"), "https://me:a%40b@host.test/f.whl");
    for other in
        ["https://files.test/f.whl", "http://host.test/f.whl", "https://host.test:8443/f", "https://you@host.test/f"]
    {
        assert_eq!(lent(other), other);
    }
}

fn links(text: &str, is_json: bool) -> Vec<Link> {
    page::links(text, is_json, &Url::parse("https://host.test/simple/tiny-plugin/").unwrap())
}

fn pick<'a>(links: &'a [Link], sha256: &str) -> Option<&'a Link> {
    page::pick(links, &piece(sha256), TARGET)
}

#[test]
fn a_json_page_is_read() {
    let text = format!(
        r#"{{"meta": {{"api-version": "1.1"}}, "files": [
            {{"filename": "other.tar.gz", "url": "https://files.test/other.tar.gz", "hashes": {{}}}},
            {{"filename": "{FILE}", "url": "../../packages/x.whl?a=b", "hashes": {{"sha256": "AB"}}, "yanked": false}},
            {{"filename": "without-url.whl"}}, 7]}}"#
    );
    for is_json in [true, false] {
        let all = links(&text, is_json);
        assert_eq!(all.len(), 2);
        assert_eq!(all[1].file, FILE);
        assert_eq!(all[1].url.as_str(), "https://host.test/packages/x.whl?a=b");
        assert_eq!(all[1].sha256.as_deref(), Some("ab"));
        assert_eq!(pick(&all, ""), Some(&all[1]));
    }
}

#[test]
fn an_html_page_is_read() {
    let text = r#"<!DOCTYPE html><html><head><title>a > b</title></head><body><!-- <a href="no.whl">no</a> -->
        <a class=x HREF='other.whl'>other.whl</a><br/>
        <a data-requires-python="&gt;=3.7,>2" href="/files/tiny_plugin-1.2%2B3-py3-none-manylinux_2_27_x86_64.whl?a=1&amp;b=2#sha256=ABCD"
           data-x>tiny</a><a name="anchor">none</a><a href=tiny_plugin-1.2&#43;4.whl>plain</a>"#;
    let all = links(text, false);
    let files: Vec<_> = all.iter().map(|l| l.file.as_str()).collect();
    assert_eq!(files, ["other.whl", FILE, "tiny_plugin-1.2+4.whl"]);
    assert_eq!(
        all[1].url.as_str(),
        "https://host.test/files/tiny_plugin-1.2%2B3-py3-none-manylinux_2_27_x86_64.whl?a=1&b=2"
    );
    assert_eq!(all[1].sha256.as_deref(), Some("abcd"));
    assert_eq!(all[0].url.as_str(), "https://host.test/simple/tiny-plugin/other.whl");
    assert_eq!(pick(&all, ""), Some(&all[1]));
}

#[test]
fn a_page_may_name_its_own_base() {
    let all = links("<base href='https://files.test/a/'><a href='b.whl'>b</a>", false);
    assert_eq!(all[0].url.as_str(), "https://files.test/a/b.whl");
}

#[test]
fn a_page_that_is_broken_lists_nothing_and_ends() {
    for text in [
        "",
        "{",
        "[]",
        "{\"files\": 3}",
        "<a href=\"x",
        "<",
        "<a",
        "<a =x>",
        "<a href>",
        "<a href='>",
        "<!--",
        "<a / = href>",
        "&<é",
    ] {
        assert_eq!(links(text, false), [], "{text}");
        assert_eq!(links(text, true), [], "{text}");
    }
}

#[test]
fn a_page_full_of_unfinished_references_is_read_quickly() {
    let text = format!("<a href='{}'>x</a>", "&".repeat(1 << 20));
    let began = std::time::Instant::now();
    assert_eq!(links(&text, false).len(), 1);
    assert!(began.elapsed().as_secs() < 10);
}

#[test]
fn a_wheel_under_another_name_is_known_by_its_hash_or_by_project_version_and_machine() {
    let choose = |files: &[&str]| {
        let text: String = files.iter().map(|file| format!("<a href='{file}'>x</a>")).collect();
        pick(&links(&text, false), "abc").map(|link| link.file.clone())
    };
    let like = "Tiny-Plugin-1.2+3-py3-none-linux_x86_64.whl";
    assert_eq!(choose(&[like, "renamed.whl#sha256=ABC", FILE]).unwrap(), FILE);
    assert_eq!(choose(&[like, "renamed.whl#sha256=ABC"]).unwrap(), "renamed.whl");
    assert_eq!(choose(&[like]).unwrap(), like);
    for other in [
        "tiny_plugin-1.2+3-py3-none-macosx_x86_64.whl",
        "tiny_plugin-1.2+31-py3-none-linux_x86_64.whl",
        "tiny_plugin-1.2+3.1-py3-none-linux_x86_64.whl",
        "tiny_plugin-1.2+3-py3-none-linux_aarch64.whl",
        "tiny_plugin-1.2+3-py3-none-linux_x86_64.tar.gz",
    ] {
        assert_eq!(choose(&[other]), None, "{other}");
    }
}

#[test]
fn of_several_wheels_of_a_version_the_one_for_the_newest_python_is_taken() {
    let files = ["libtpu-0.0.1-cp311-cp311-win_amd64.whl", "libtpu-0.0.1-cp312-cp312-win_amd64.whl"];
    let text: String = files.iter().map(|file| format!("<a href='{file}'>x</a>")).collect();
    let piece = Piece { project: "libtpu".to_string(), version: "0.0.1".to_string(), ..Piece::default() };
    let all = links(&text, false);
    let windows = PlatformRelease { os: "windows", arch: "x86_64" };
    assert_eq!(page::pick(&all, &piece, windows).unwrap().file, files[1]);
    assert_eq!(page::pick(&all, &piece, TARGET), None);
}

#[cfg(unix)]
#[test]
fn all_commands_for_pip_share_a_time_limit() {
    let mark = std::env::temp_dir().join(format!("pjrt-pip-{}", std::process::id()));
    let late = format!("touch '{}'", mark.display());
    let commands: [&[&str]; 2] = [&["sh", "-c", "exec sleep 1000"], &["sh", "-c", &late]];
    let limit = std::time::Duration::from_millis(50);
    assert_eq!(pip::index_of(&commands, limit, &mut Watch::new(&mut |_, _| true)).unwrap(), None);
    assert!(!mark.exists());
    assert_eq!(pip::index_of(&commands[1..], 1000 * limit, &mut Watch::new(&mut |_, _| true)).unwrap(), None);
    std::fs::remove_file(&mark).unwrap();
}

#[cfg(unix)]
#[test]
fn a_failure_of_pip_is_told_in_its_words() {
    let answer = |commands: &[&[&str]]| {
        pip::index_of(commands, std::time::Duration::from_secs(60), &mut Watch::new(&mut |_, _| true))
    };
    let absent: &[&str] = &["sh", "-c", "echo 'python3: No module named pip' >&2; exit 1"];
    let broken: &[&str] =
        &["sh", "-c", "echo trace >&2; echo; printf 'no section\nfile: pip.conf\n\nx = 1\n' >&2; exit 3"];
    let sound: &[&str] = &["sh", "-c", "echo warning >&2; echo '--index-url (default https://index.test/simple)'"];
    assert_eq!(answer(&[absent]).unwrap(), None);
    let error = answer(&[absent, broken]).unwrap_err();
    assert_eq!(error.kind(), Kind::Download);
    assert!(error.message().ends_with("pip fails: no section file: pip.conf x = 1"), "{error}");
    assert_eq!(answer(&[broken, sound]).unwrap().unwrap(), "https://index.test/simple");
}

//! Clusters of real etcd on free ports of this machine, each in a folder of its own.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use snowlease_lease::os;

use super::gateway::{base64, post, unbase64};
use super::process::{Process, program};
use super::tls::Certificates;
use crate::Address;

/// How a cluster is started.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// `3.4`, `3.5`, `3.6` or `3.7`.
    pub version: &'a str,
    /// 1 or 3.
    pub members: usize,
    /// Serve with these, and want certificates of clients.
    pub tls: Option<&'a Certificates>,
    /// More arguments for every member.
    pub more: &'a [&'a str],
}

impl<'a> Options<'a> {
    /// One member of this version.
    pub fn single(version: &'a str) -> Options<'a> {
        Options { version, members: 1, tls: None, more: &[] }
    }
}

/// A cluster that runs as long as this value lives.
#[derive(Debug)]
pub struct Cluster {
    folder: tempfile::TempDir,
    program: PathBuf,
    members: Vec<Member>,
    secure: bool,
}

#[derive(Debug)]
struct Member {
    host: String,
    arguments: Vec<String>,
    process: Option<Process>,
}

/// How long a member may take to serve.
const PATIENCE: Duration = Duration::from_secs(30);

impl Cluster {
    /// Starts a cluster and waits until it serves.
    pub fn start(options: &Options<'_>) -> Cluster {
        let folder = tempfile::tempdir().unwrap();
        let scheme = if options.tls.is_some() { "https" } else { "http" };
        let ports: Vec<(u16, u16)> = free_ports(options.members);
        let initial: Vec<String> = (0..)
            .zip(&ports)
            .map(|(place, (_, peer)): (usize, _)| format!("m{place}=http://127.0.0.1:{peer}"))
            .collect();
        let member = |(place, (client, peer)): (usize, &(u16, u16))| {
            let url = format!("{scheme}://127.0.0.1:{client}");
            let peer = format!("http://127.0.0.1:{peer}");
            let data = folder.path().join(format!("m{place}"));
            let mut arguments: Vec<String> = [
                ("--name", format!("m{place}")),
                ("--data-dir", data.display().to_string()),
                ("--listen-client-urls", url.clone()),
                ("--advertise-client-urls", url),
                ("--listen-peer-urls", peer.clone()),
                ("--initial-advertise-peer-urls", peer),
                ("--initial-cluster", initial.join(",")),
                ("--auto-compaction-mode", "periodic".to_owned()),
                ("--auto-compaction-retention", "1h".to_owned()),
                ("--logger", "zap".to_owned()),
                ("--log-level", "warn".to_owned()),
            ]
            .into_iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
            if let Some(tls) = options.tls {
                let (certificate, key) = tls.server();
                arguments.extend([
                    "--client-cert-auth".to_owned(),
                    format!("--trusted-ca-file={}", tls.authority().display()),
                    format!("--cert-file={}", certificate.display()),
                    format!("--key-file={}", key.display()),
                ]);
            }
            arguments.extend(options.more.iter().map(|more| (*more).to_owned()));
            Member { host: format!("127.0.0.1:{client}"), arguments, process: None }
        };
        let members = (0..).zip(&ports).map(member).collect();
        let secure = options.tls.is_some();
        let mut cluster = Cluster { folder, program: program(options.version), members, secure };
        for place in 0..options.members {
            cluster.launch(place);
        }
        cluster.wait();
        cluster
    }

    /// The endpoints, each as `HOST:PORT`.
    pub fn hosts(&self) -> Vec<&str> {
        self.members.iter().map(|member| member.host.as_str()).collect()
    }

    /// The address of a store under a prefix.
    pub fn address(&self, prefix: &str) -> Address {
        format!("etcd://{}/{prefix}", self.hosts().join(",")).parse().unwrap()
    }

    /// Starts a member that was stopped or killed, on the data it left.
    pub fn launch(&mut self, place: usize) {
        let log = self.folder.path().join(format!("m{place}.log"));
        let member = &mut self.members[place];
        assert!(member.process.is_none(), "it runs");
        member.process = Some(Process::start(&self.program, &member.arguments, &log));
    }

    /// Waits until every member that runs serves.
    pub fn wait(&mut self) {
        if self.secure {
            // The gateway would want a certificate: the port has to do.
            let hosts: Vec<String> = self.hosts().into_iter().map(str::to_owned).collect();
            return self.until("serves", |_| {
                hosts.iter().all(|host| std::net::TcpStream::connect(host).is_ok())
            });
        }
        self.until("serves", |cluster| {
            let running = cluster.members.iter().filter(|member| member.process.is_some());
            let body = format!("{{\"key\":\"{}\"}}", base64(b"any"));
            running.into_iter().all(|member| match post(&member.host, "/v3/kv/range", "", &body) {
                Ok(_) => true,
                Err(said) => said.contains("user name is empty"),
            })
        });
    }

    /// Waits until this holds; panics if it does not come to.
    pub fn until(&mut self, what: &str, holds: impl Fn(&Cluster) -> bool) {
        let begun = os::boot_ns();
        while !holds(self) {
            let ended =
                |member: &mut Member| member.process.as_mut().is_some_and(Process::has_ended);
            let gone = self.members.iter_mut().any(ended);
            let late = u128::from(os::boot_ns() - begun) > PATIENCE.as_nanos();
            assert!(!gone && !late, "no member {what}: {}", self.log());
            pause(Duration::from_millis(20));
        }
    }

    /// Asks a member to end, and waits until it has.
    pub fn stop(&mut self, place: usize) {
        self.members[place].process.take().unwrap().stop();
    }

    /// Ends a member at once, as `kill -9` does.
    pub fn kill(&mut self, place: usize) {
        self.members[place].process = None;
    }

    /// Stops a member as it stands: its connections stay open and nothing is answered.
    pub fn freeze(&self, place: usize) {
        self.members[place].process.as_ref().unwrap().signal(libc::SIGSTOP);
    }

    /// Lets a frozen member go on.
    pub fn thaw(&self, place: usize) {
        self.members[place].process.as_ref().unwrap().signal(libc::SIGCONT);
    }

    /// Which member leads.
    pub fn leader(&mut self) -> usize {
        let found = std::cell::Cell::new(None);
        self.until("leads", |cluster| {
            let leads = (0..cluster.members.len()).find(|place| {
                let member = &cluster.members[*place];
                member.process.is_some() && leads(&member.host)
            });
            found.set(leads);
            leads.is_some()
        });
        found.get().unwrap()
    }

    /// Copies the data of a single member that is stopped to somewhere else.
    pub fn back_up(&self, to: &Path) {
        assert!(self.members[0].process.is_none(), "stop it first");
        copy(&self.folder.path().join("m0"), to);
    }

    /// Puts such a copy in place of the data.
    pub fn put_back(&self, from: &Path) {
        assert!(self.members[0].process.is_none(), "stop it first");
        let data = self.folder.path().join("m0");
        fs::remove_dir_all(&data).unwrap();
        copy(from, &data);
    }

    /// Adds the users `root` and `user` with a role for keys under a prefix, and has etcd check
    /// users from now on.
    pub fn enable_auth(&self, user: &str, password: &str, prefix: &str) {
        let key = base64(prefix.as_bytes());
        let mut end = prefix.as_bytes().to_vec();
        *end.last_mut().unwrap() += 1;
        let end = base64(&end);
        for (path, body) in [
            ("user/add", r#"{"name":"root","password":"rootpw"}"#.to_owned()),
            ("role/add", r#"{"name":"root"}"#.to_owned()),
            ("user/grant", r#"{"user":"root","role":"root"}"#.to_owned()),
            ("role/add", r#"{"name":"ids"}"#.to_owned()),
            (
                "role/grant",
                format!(
                    "{{\"name\":\"ids\",\"perm\":{{\"permType\":\"READWRITE\",\"key\":\"{key}\",\
                     \"range_end\":\"{end}\"}}}}"
                ),
            ),
            ("user/add", format!("{{\"name\":\"{user}\",\"password\":\"{password}\"}}")),
            ("user/grant", format!("{{\"user\":\"{user}\",\"role\":\"ids\"}}")),
            ("enable", "{}".to_owned()),
        ] {
            self.post(&format!("auth/{path}"), "", &body);
        }
    }

    /// A token of the user `root`, once users are checked.
    pub fn root_token(&self) -> String {
        let body = r#"{"name":"root","password":"rootpw"}"#;
        let answer = self.post("auth/authenticate", "", body);
        let token = answer.split("\"token\":\"").nth(1).unwrap();
        token.split('"').next().unwrap().to_owned()
    }

    /// Posts to a path below `/v3/` of the first member.
    pub fn post(&self, path: &str, token: &str, body: &str) -> String {
        let answer = post(&self.members[0].host, &format!("/v3/{path}"), token, body);
        answer.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Puts a key, as somebody else would.
    pub fn put(&self, key: &str, value: &[u8]) {
        self.try_put(key, value).unwrap();
    }

    /// Puts a key, if it is taken.
    ///
    /// # Errors
    ///
    /// What etcd said.
    pub fn try_put(&self, key: &str, value: &[u8]) -> Result<(), String> {
        let (key, value) = (base64(key.as_bytes()), base64(value));
        let body = format!("{{\"key\":\"{key}\",\"value\":\"{value}\"}}");
        post(&self.members[0].host, "/v3/kv/put", "", &body).map(drop)
    }

    /// Deletes a key, as somebody else would.
    pub fn delete(&self, key: &str) {
        let key = base64(key.as_bytes());
        self.post("kv/deleterange", "", &format!("{{\"key\":\"{key}\"}}"));
    }

    /// The value of a key, if it is there.
    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        let key = base64(key.as_bytes());
        let answer = self.post("kv/range", "", &format!("{{\"key\":\"{key}\"}}"));
        answer.contains("\"kvs\"").then(|| unbase64(&field(&answer, "value").unwrap_or_default()))
    }

    /// The newest revision.
    pub fn revision(&self) -> u64 {
        let body = format!("{{\"key\":\"{}\"}}", base64(b"any"));
        field(&self.post("kv/range", "", &body), "revision").unwrap().parse().unwrap()
    }

    /// Gives the space of deleted keys back, and has the members take puts again.
    pub fn make_room(&self) {
        self.compact();
        self.post("maintenance/defragment", "", "{}");
        let alarms = self.post("maintenance/alarm", "", "{}");
        let member = field(&alarms, "memberID").unwrap();
        let body = format!(
            "{{\"action\":\"DEACTIVATE\",\"alarm\":\"NOSPACE\",\"memberID\":\"{member}\"}}"
        );
        self.post("maintenance/alarm", "", &body);
    }

    /// How many keys there are that begin so.
    pub fn count(&self, prefix: &str) -> u64 {
        let mut end = prefix.as_bytes().to_vec();
        *end.last_mut().unwrap() += 1;
        let (key, end) = (base64(prefix.as_bytes()), base64(&end));
        let body = format!("{{\"key\":\"{key}\",\"range_end\":\"{end}\",\"count_only\":true}}");
        field(&self.post("kv/range", "", &body), "count").map_or(0, |count| count.parse().unwrap())
    }

    /// Lets go of all history.
    pub fn compact(&self) {
        let revision = self.revision();
        self.post(
            "kv/compaction",
            "",
            &format!("{{\"revision\":\"{revision}\",\"physical\":true}}"),
        );
    }

    /// What the members logged.
    pub fn log(&self) -> String {
        let read = |place| {
            let path = self.folder.path().join(format!("m{place}.log"));
            fs::read_to_string(path).unwrap_or_default()
        };
        (0..self.members.len()).map(read).collect()
    }
}

/// Whether the member at this host leads.
fn leads(host: &str) -> bool {
    let Ok(answer) = post(host, "/v3/maintenance/status", "", "{}") else { return false };
    let leader = field(&answer, "leader");
    leader.is_some_and(|leader| leader != "0" && Some(leader) == field(&answer, "member_id"))
}

/// A field of JSON whose value is a text.
fn field(json: &str, name: &str) -> Option<String> {
    let rest = json.split(&format!("\"{name}\":\"")).nth(1)?;
    rest.split('"').next().map(str::to_owned)
}

fn free_ports(members: usize) -> Vec<(u16, u16)> {
    // All are held until all are known, so that none is given twice.
    let held: Vec<_> =
        (0..members * 2).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
    held.chunks(2).map(|pair| (port(&pair[0]), port(&pair[1]))).collect()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Waits for a process of another program, which nothing else could tell of.
#[expect(clippy::disallowed_methods, reason = "etcd has no way to say that it serves")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}

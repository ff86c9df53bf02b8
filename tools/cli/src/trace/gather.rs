//! Asking agents for spans. Invariant: the number of questions is bounded, and one agent's silence
//! costs no more than its deadline.

use crate::asked_agent::AskedAgent;
use crate::failure::Failure;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use perigee_agent::{SpanEntry, TraceAnswer};
use perigee_schemas::trace::TraceContext;
use perigee_verdict::ClusterVerdict;
use std::collections::{BTreeMap, BTreeSet};

/// Agents that are asked at the same time.
const AT_ONCE: usize = 32;

/// What a word means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// A key, or something that may be one.
    Key(String),
    /// The name of a request; the word may be a key all the same.
    Id(String, String),
}

impl Wanted {
    /// 32 digits name a request, and so does a whole `traceparent`.
    pub(super) fn read(word: &str) -> Self {
        let id = match TraceContext::parse(word) {
            Some(context) => Some(format!("{:032x}", context.id)),
            None if word.len() == 32 => Some(word.to_lowercase()),
            None => None,
        };
        let is_id = |id: &String| id.bytes().all(|byte| byte.is_ascii_hexdigit());
        match id.filter(is_id) {
            Some(id) => Self::Id(id, word.to_owned()),
            None => Self::Key(word.to_owned()),
        }
    }
}

/// What agents have.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// In the order in which agents have them.
    pub(super) spans: Vec<SpanEntry>,
    /// Who was not reached, and why.
    pub(super) troubles: Vec<String>,
    /// How many agents answered.
    pub(super) asked: usize,
}

/// Asks these agents, and those that report to the master of the cluster.
pub(super) fn gather(
    mut agents: Vec<AskedAgent>,
    cluster: Option<AskedAgent>,
    wanted: Option<&Wanted>,
    count: usize,
) -> Result<Gathered, Failure> {
    let mut gathered = Gathered::default();
    let question = match wanted {
        None => String::new(),
        Some(Wanted::Key(key)) => by_key(key),
        Some(Wanted::Id(id, _)) => by_id(id),
    };
    let first = ask_all(&agents, &question, &mut gathered.troubles);
    let reported = first.iter().find_map(|answer| answer.cluster.as_deref());
    let others = match cluster.or_else(|| reported.map(AskedAgent::at)) {
        Some(master) => agents_of(&master, &agents, &mut gathered.troubles),
        None => Vec::new(),
    };
    let second = ask_all(&others, &question, &mut gathered.troubles);
    // Two addresses may lead to one agent.
    let hosts: BTreeSet<&str> =
        first.iter().chain(&second).map(|answer| answer.host.as_str()).collect();
    gathered.asked = hosts.len();
    let all: BTreeMap<&str, u64> =
        first.iter().chain(&second).map(|answer| (answer.host.as_str(), answer.lost)).collect();
    let lossy = all.into_iter().filter(|(_, lost)| *lost > 0);
    gathered.troubles.extend(lossy.map(|(host, lost)| {
        format!("the agent of {host} came too late for {lost} spans so far; parts may be missing")
    }));
    if gathered.asked == 0 {
        return Err(Failure::NoAgentForTrace { reason: gathered.troubles.join("; ") });
    }
    agents.extend(others);
    gathered.add(first.into_iter().chain(second));
    if let Some(Wanted::Id(_, word)) = wanted
        && gathered.spans.is_empty()
    {
        gathered.add(ask_all(&agents, &by_key(word), &mut Vec::new()));
    }
    if wanted.is_some() {
        // What servers did for a call lies with their agents, under its name only.
        let shown: Vec<String> = latest(&gathered.spans, count);
        gathered.spans.retain(|span| shown.contains(&span.trace));
        for id in &shown {
            gathered.add(ask_all(&agents, &by_id(id), &mut Vec::new()));
        }
    }
    gathered.spans.sort_by_key(|span| span.began_us);
    Ok(gathered)
}

impl Gathered {
    /// Adds spans that are not there yet: two places may lead to one agent.
    fn add(&mut self, answers: impl IntoIterator<Item = TraceAnswer>) {
        let name = |span: &SpanEntry| (span.host.clone(), span.pid, span.span.clone());
        let mut known: BTreeSet<_> = self.spans.iter().map(name).collect();
        for span in answers.into_iter().flat_map(|answer| answer.spans) {
            if known.insert(name(&span)) {
                self.spans.push(span);
            }
        }
    }
}

/// Names of requests, the oldest first.
pub(super) fn traces(spans: &[SpanEntry]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for span in spans {
        if !names.contains(&span.trace.as_str()) {
            names.push(&span.trace);
        }
    }
    names
}

fn latest(spans: &[SpanEntry], count: usize) -> Vec<String> {
    let mut calls: Vec<&SpanEntry> = spans.iter().collect();
    calls.sort_by_key(|span| std::cmp::Reverse(span.began_us));
    let mut names: Vec<String> = Vec::new();
    for span in calls {
        if names.len() < count && !names.contains(&span.trace) {
            names.push(span.trace.clone());
        }
    }
    names
}

fn by_id(id: &str) -> String {
    format!("?id={id}")
}

fn by_key(key: &str) -> String {
    format!("?key={}", utf8_percent_encode(key, NON_ALPHANUMERIC))
}

/// The agents that report to a master and serve other hosts, without those that were asked already.
fn agents_of(
    master: &AskedAgent,
    asked: &[AskedAgent],
    troubles: &mut Vec<String>,
) -> Vec<AskedAgent> {
    let answer = master.ask("/api/v1/cluster/verdict");
    let verdict = answer.and_then(|text| {
        serde_json::from_str::<ClusterVerdict>(&text).map_err(|error| error.to_string())
    });
    let hosts = match verdict {
        Ok(verdict) => verdict.hosts,
        Err(reason) => {
            troubles.push(format!(
                "the master at {} does not list its agents: {reason}; --cluster wants its HTTP port",
                master.place()
            ));
            return Vec::new();
        }
    };
    let hidden: Vec<&str> =
        hosts.iter().filter(|one| one.agent.is_none()).map(|one| one.host.as_str()).collect();
    if !hidden.is_empty() && hosts.len() > 1 {
        troubles.push(format!(
            "agents that serve their own host only are left out ({}); start them with --host=0.0.0.0",
            hidden.join(", ")
        ));
    }
    let places = hosts.iter().filter_map(|host| host.agent.as_deref()).map(AskedAgent::at);
    places.filter(|one| asked.iter().all(|known| known.place() != one.place())).collect()
}

/// What each agent answers; those that do not are named in `troubles`.
fn ask_all(agents: &[AskedAgent], question: &str, troubles: &mut Vec<String>) -> Vec<TraceAnswer> {
    let ask = |agent: &AskedAgent| -> Result<TraceAnswer, String> {
        let text = agent.ask(&format!("/traces.json{question}"))?;
        serde_json::from_str(&text)
            .map_err(|error| format!("that is no answer of an agent: {error}"))
    };
    let mut answers = Vec::new();
    for group in agents.chunks(AT_ONCE) {
        let answered: Vec<Result<TraceAnswer, String>> = std::thread::scope(|scope| {
            let asking: Vec<_> = group.iter().map(|agent| scope.spawn(|| ask(agent))).collect();
            let lost = || Err("its thread ended by a panic".to_owned());
            asking.into_iter().map(|one| one.join().unwrap_or_else(|_| lost())).collect()
        });
        for (agent, answer) in group.iter().zip(answered) {
            match answer {
                Ok(answer) => answers.push(answer),
                Err(reason) => troubles.push(format!("no answer of {}: {reason}", agent.place())),
            }
        }
    }
    answers
}

//! `perigee top --cluster`: who is slow in a cluster, as its agents see it, and NIC by peer.

mod matrix;

use super::watched::{AfterKey, Watched};
use crate::asked_agent::AskedAgent;
use matrix::matrix;
use perigee_verdict::{ClusterVerdict, NamedCulprit};
use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Wrap};
use std::time::Duration;

/// Columns of what is printed into a pipe.
const PRINTED_COLUMNS: usize = 120;

/// What a master says of its cluster.
pub(super) fn read(master: &AskedAgent) -> Result<ClusterVerdict, String> {
    let text = master.ask("/api/v1/cluster/verdict")?;
    serde_json::from_str(&text).map_err(|error| format!("that is no verdict: {error}"))
}

/// Everything that is shown of a cluster.
pub(super) struct ClusterState {
    origin: String,
    delay: Duration,
    verdict: ClusterVerdict,
    /// Why there is nothing new.
    trouble: Option<String>,
    /// Lines above the screen.
    scrolled: u16,
    paused: bool,
}

impl ClusterState {
    pub(super) fn new(delay: Duration, origin: &str) -> Self {
        Self {
            origin: origin.to_owned(),
            delay,
            verdict: ClusterVerdict::default(),
            trouble: None,
            scrolled: 0,
            paused: false,
        }
    }

    /// Everything, for a pipe.
    pub(super) fn text(&self) -> String {
        let mut text = format!("{}\n", self.summary());
        for (_, line) in self.lines(PRINTED_COLUMNS) {
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    fn summary(&self) -> String {
        let (hosts, links) = (self.verdict.hosts.len(), self.verdict.links.len());
        format!("perigee top --cluster  {}  {hosts} agents, {links} links", self.origin)
    }

    /// Lines, and whether each is bad news.
    fn lines(&self, columns: usize) -> Vec<(bool, String)> {
        let mut lines = Vec::new();
        if self.verdict.hosts.is_empty() && self.verdict.silent.is_empty() {
            let text = "No agent reports to this master; start agents with --report_to=MASTER";
            lines.push((false, text.to_owned()));
            return lines;
        }
        for culprit in &self.verdict.culprits {
            lines.push((true, accusation(culprit, self.verdict.taken_ms)));
            lines.extend(culprit.evidence.iter().map(|text| (false, format!("     {text}"))));
        }
        if self.verdict.culprits.is_empty() {
            lines.push((false, "No agent sees anything slow".to_owned()));
        }
        lines.push((false, String::new()));
        lines.extend(matrix(&self.verdict, columns));
        lines.push((false, String::new()));
        for host in &self.verdict.hosts {
            let (name, nics, seconds) = (&host.host, host.nics.join(", "), host.age_ms / 1000);
            lines.push((false, format!("{name}: {nics}; reported {seconds} s ago")));
        }
        for host in &self.verdict.silent {
            let text = format!("{}: silent for {} s, not judged", host.host, host.age_ms / 1000);
            lines.push((true, text));
        }
        lines
    }

    fn foot(&self) -> Line<'_> {
        if let Some(trouble) = &self.trouble {
            let text = format!("No answer: {trouble}; what is shown is old");
            return Line::styled(text, Style::new().fg(Color::Red));
        }
        let held = if self.paused { "held  " } else { "" };
        Line::raw(format!("{held}up, down scroll  space holds  q end"))
    }
}

/// Who is at fault, and for how much.
fn accusation(culprit: &NamedCulprit, now_ms: u64) -> String {
    let NamedCulprit { kind, name, sick_links, links, since_ms, .. } = culprit;
    let seconds = now_ms.saturating_sub(*since_ms) / 1000;
    let part = match links {
        0 => String::new(),
        _ => format!(", {sick_links} of its {links} links"),
    };
    format!("SLOW {} {name}{part}, for {seconds} s", kind.word())
}

/// Draws everything.
pub(super) fn draw(state: &ClusterState, frame: &mut Frame<'_>) {
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(1), Constraint::Length(1)])
            .areas(frame.area());
    let bold = Style::new().add_modifier(Modifier::BOLD);
    frame.render_widget(Line::styled(state.summary(), bold), head);
    let red = Style::new().fg(Color::Red);
    let lines = state.lines(usize::from(body.width)).into_iter();
    let lines = lines.map(|(bad, line)| match bad {
        true => Line::styled(line, red),
        false => Line::raw(line),
    });
    let text = Paragraph::new(lines.collect::<Vec<_>>()).wrap(Wrap { trim: false });
    frame.render_widget(text.scroll((state.scrolled, 0)), body);
    frame.render_widget(state.foot(), foot);
}

impl Watched for ClusterState {
    type Reading = ClusterVerdict;

    fn press(&mut self, key: KeyEvent) -> AfterKey {
        let is_interrupt =
            key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c');
        let last = u16::try_from(self.lines(PRINTED_COLUMNS).len()).unwrap_or(u16::MAX);
        match key.code {
            _ if is_interrupt => return AfterKey::End,
            KeyCode::Char('q') => return AfterKey::End,
            KeyCode::Char(' ') => self.paused = !self.paused,
            KeyCode::Down => self.scrolled = self.scrolled.saturating_add(1).min(last),
            KeyCode::Up => self.scrolled = self.scrolled.saturating_sub(1),
            _ => {}
        }
        AfterKey::Stay
    }

    fn accept(&mut self, reading: Result<ClusterVerdict, String>) {
        match reading {
            Ok(verdict) => (self.verdict, self.trouble) = (verdict, None),
            Err(trouble) => self.trouble = Some(trouble),
        }
    }

    fn delay(&self) -> Duration {
        self.delay
    }

    fn is_paused(&self) -> bool {
        self.paused
    }
}

#[cfg(test)]
mod tests;

//! Drawing the board.

use super::board::{TopState, accusation};
use super::table::{TableCell, View};
use super::watched::Watched;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{
    Axis, Block, Chart, Dataset, GraphType, Paragraph, Row, Table, TableState, Wrap,
};

const KEYS: &str = "\
Tab, arrows  next view
up, down     select a row
Enter        graph of the row
s            sort by the next column
f or /       filter; Enter keeps it, Esc clears it
space        hold
+ and -      slower and faster
q            end";

/// Columns and lines without which there is nothing worth showing; 80x24 shows all.
const SMALLEST: (u16, u16) = (40, 6);
/// Lines that the table keeps, however many are slow.
const TABLE_LINES_MIN: usize = 8;

/// Draws everything.
pub(super) fn draw(board: &TopState, frame: &mut Frame<'_>) {
    let Rect { width, height, .. } = frame.area();
    if width < SMALLEST.0 || height < SMALLEST.1 {
        let (columns, lines) = SMALLEST;
        let text = format!("perigee top needs {columns}x{lines}, this is {width}x{height}");
        let notice = Paragraph::new(text).wrap(Wrap { trim: true });
        return frame.render_widget(notice, frame.area());
    }
    let accused = accusations(board, usize::from(width), usize::from(height));
    let [head, body, slow, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(3),
        Constraint::Length(u16::try_from(accused.len()).unwrap_or(0)),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(tabs(board), head);
    match (&board.graph, board.help) {
        (_, true) => {
            frame.render_widget(Paragraph::new(KEYS).block(Block::bordered().title("Keys")), body);
        }
        (Some(key), false) => graph(board, key, frame, body),
        (None, false) => table(board, frame, body),
    }
    let red = Style::new().fg(Color::Red);
    let lines = accused.into_iter().map(|line| Line::styled(line, red));
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), slow);
    frame.render_widget(status(board), foot);
}

/// Who is slow with all of the evidence, as far as the table leaves room.
fn accusations(board: &TopState, width: usize, height: usize) -> Vec<String> {
    let suspects = board.suspects();
    let room = height.saturating_sub(TABLE_LINES_MIN + 2).max(1);
    let mut lines = Vec::new();
    for (shown, suspect) in suspects.iter().enumerate() {
        let of_one = broken(&accusation(suspect), width);
        let is_last = shown + 1 == suspects.len();
        if lines.len() + of_one.len() + usize::from(!is_last) > room {
            let rest =
                format!("SLOW and {} more; a higher window shows them", suspects.len() - shown);
            lines.push(rest);
            break;
        }
        lines.extend(of_one);
    }
    lines
}

/// A text in lines of this width; those after the first are indented.
fn broken(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) => lines.push(format!("     {word}")),
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

fn tabs(board: &TopState) -> Line<'_> {
    let mut spans = vec![Span::styled("perigee top ", Style::new().add_modifier(Modifier::BOLD))];
    for view in View::ALL {
        let style = match view == board.view {
            true => Style::new().add_modifier(Modifier::REVERSED),
            false => Style::new(),
        };
        spans.push(Span::styled(format!(" {} ", view.title()), style));
    }
    spans.push(Span::raw(format!("  {} ({})", board.host(), board.origin)));
    Line::from(spans)
}

fn table(board: &TopState, frame: &mut Frame<'_>, area: Rect) {
    let table = board.table();
    let sorted = board.sorted_by();
    let columns = fitting(table.view.columns(), area.width);
    let titles = columns.iter().enumerate().map(|(index, (title, _))| {
        let mark = if index == sorted { "*" } else { "" };
        format!("{title}{mark}")
    });
    let rows = table.arranged(sorted, &board.filter);
    if rows.is_empty() {
        let notice = Paragraph::new(why_empty(board)).wrap(Wrap { trim: true });
        return frame.render_widget(notice, area);
    }
    let widths = widths(columns, &rows, area.width);
    let lines = rows.iter().map(|row| {
        let down =
            row.cells.iter().any(|cell| ["DOWN", "off", "partly"].contains(&cell.text.as_str()));
        let style = if down { Style::new().fg(Color::Red) } else { Style::new() };
        let cells = row.cells.iter().zip(&widths);
        Row::new(cells.map(|(cell, width)| cut(&cell.text, *width))).style(style)
    });
    let shown = Table::new(lines, widths.iter().copied().map(Constraint::Length))
        .header(Row::new(titles).style(Style::new().add_modifier(Modifier::UNDERLINED)))
        .column_spacing(0)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut state = TableState::new().with_selected(board.selected);
    frame.render_stateful_widget(shown, area, &mut state);
}

fn why_empty(board: &TopState) -> String {
    match board.filter.as_str() {
        "" => "Nothing to show here. Press Tab for another view; Probes says what is off, and why."
            .to_owned(),
        filter => format!("No row contains `{filter}`. Esc clears the filter; f changes it."),
    }
}

/// The first columns, as many as there is room for: a number that is cut off would be a wrong one.
fn fitting<'a>(columns: &'a [(&'a str, u16)], width: u16) -> &'a [(&'a str, u16)] {
    let mut used = 0;
    let fits = |(_, column): &&(&str, u16)| {
        used += column;
        used <= width
    };
    &columns[..columns.iter().take_while(fits).count()]
}

/// Columns get what their texts need of the room that is left, the first ones first.
fn widths(columns: &[(&str, u16)], rows: &[&super::table::TableRow], width: u16) -> Vec<u16> {
    let used: u16 = columns.iter().map(|(_, width)| width).sum();
    let mut left = width.saturating_sub(used);
    let widths = columns.iter().enumerate().map(|(index, (_, least))| {
        let cells = rows.iter().filter_map(|row| row.cells.get(index));
        let longest = cells.map(|cell| cell.text.chars().count()).max();
        let wanted = u16::try_from(longest.unwrap_or(0) + 1).unwrap_or(u16::MAX);
        let more = wanted.saturating_sub(*least).min(left);
        left -= more;
        least + more
    });
    widths.collect()
}

/// A text with a gap to the next column; what was cut off is shown by the last character.
fn cut(text: &str, width: u16) -> String {
    let room = usize::from(width).saturating_sub(1);
    if text.chars().count() <= room {
        return text.to_owned();
    }
    let mut kept: String = text.chars().take(room.saturating_sub(1)).collect();
    kept.push('~');
    kept
}

fn graph(board: &TopState, key: &str, frame: &mut Frame<'_>, area: Rect) {
    let points = board.points(key);
    let series = |index: usize| -> Vec<(f64, f64)> {
        points.iter().enumerate().map(|(at, point)| (at as f64, point[index])).collect()
    };
    let (first, second) = (series(0), series(1));
    let top = points.iter().flatten().copied().fold(0.0, f64::max);
    // Of nothing at all the axis still shows what would be something.
    let top = if top > 0.0 { top } else { 1.0 };
    let line = |name: &'static str, data, color| {
        let dataset = Dataset::default().name(name).marker(Marker::Braille);
        dataset.graph_type(GraphType::Line).style(Style::new().fg(color)).data(data)
    };
    let mut sets =
        vec![line(if board.view == View::Nics { "in" } else { "" }, &first, Color::Cyan)];
    if board.view == View::Nics {
        sets.push(line("out", &second, Color::Yellow));
    }
    let labels = [0.0, top / 2.0, top].map(|value| mark(board.view, value, top));
    let chart = Chart::new(sets)
        .block(Block::bordered().title(format!("{key}: the last {} readings", points.len())))
        .x_axis(Axis::default().bounds([0.0, points.len().max(2) as f64 - 1.0]))
        .y_axis(Axis::default().bounds([0.0, top]).labels(labels));
    frame.render_widget(chart, area);
}

/// A value beside the axis, with so many digits that the three marks differ.
fn mark(view: View, value: f64, top: f64) -> String {
    let (value, top, unit) = match view {
        View::Shards => (value * 100.0, top * 100.0, "%"),
        _ => (value, top, ""),
    };
    match top {
        top if top < 1.0 => format!("{value:.2}{unit}"),
        top if top < 10.0 => format!("{value:.1}{unit}"),
        _ if unit.is_empty() => TableCell::count(value).text,
        _ => format!("{value:.0}{unit}"),
    }
}

fn status(board: &TopState) -> Line<'_> {
    if let Some(trouble) = &board.trouble {
        let text = format!("No new numbers: {trouble}");
        return Line::styled(text, Style::new().fg(Color::Red));
    }
    if board.typing {
        return Line::raw(format!("filter: {}_", board.filter));
    }
    let held = if board.is_paused() { "held  " } else { "" };
    let filter = match board.filter.is_empty() {
        true => String::new(),
        false => format!("filter: {}  ", board.filter),
    };
    Line::raw(format!("{held}{filter}Tab view  s sort  f filter  Enter graph  ? keys  q end"))
}

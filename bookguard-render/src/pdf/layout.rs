//! Places the document's parts on pages.
//!
//! Invariants: no heading stands last on a page, and no label of a list; a paragraph leaves no single line behind, and one in a
//! table stays whole; a table's header is repeated on every page that the table reaches; whatever is taller than half a page may go on on the next one.

use std::ops::Range;
use std::rc::Rc;

use super::breaking::lines;
use super::content::{Block, Cell, Table};
use super::fonts::Faces;
use super::legible::Legible;

/// A4 in points, and the margins.
pub(super) const PAGE: (f32, f32) = (595.28, 841.89);
pub(super) const SIDE: f32 = 62.0;
const TOP: f32 = 62.0;
const BOTTOM: f32 = 76.0;
const WIDTH: f32 = PAGE.0 - 2.0 * SIDE;
const LOWEST: f32 = PAGE.1 - BOTTOM;

/// How text looks. All lengths are points.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Style {
    pub(super) size: f32,
    pub(super) bold: bool,
    pub(super) grey: bool,
    leading: f32,
}

const fn style(size: f32, bold: bool, grey: bool, leading: f32) -> Style {
    Style {
        size,
        bold,
        grey,
        leading,
    }
}

const TITLE: Style = style(23.0, true, false, 30.0);
const LEAD: Style = style(13.5, true, false, 19.5);
const SECTION: Style = style(15.0, true, false, 20.0);
const SUBSECTION: Style = style(12.0, true, false, 17.0);
const BODY: Style = style(12.0, false, false, 17.0);
const HEADER: Style = style(10.0, true, false, 14.0);
const ASIDE: Style = style(10.0, false, true, 14.0);
pub(super) const FOOTER: Style = style(9.0, false, true, 12.0);

/// What a part of the structure is, in the words of PDF.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Heading(u16),
    Paragraph,
    List,
    Item,
    Label,
    ItemBody,
    Table,
    TableHead,
    TableBody,
    Row,
    ColumnHeader,
    RowHeader,
    Data,
}

/// A part of the document's structure. Parents stand before their children.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) role: Role,
    pub(super) parent: Option<NodeNumber>,
    /// The text of a heading; otherwise empty.
    pub(super) title: String,
}

pub(super) type NodeNumber = usize;

/// What is drawn.
#[derive(Debug)]
pub(super) enum Mark {
    Line {
        legible: Rc<Legible>,
        range: Range<usize>,
        style: Style,
        x: f32,
        baseline: f32,
        /// The part of the structure that it belongs to; none if it only repeats something.
        node: Option<NodeNumber>,
    },
    Rule {
        x: f32,
        y: f32,
        width: f32,
        height: f32,
        /// 0 is black, 255 white.
        grey: u8,
    },
}

/// A heading in the bookmarks.
#[derive(Debug)]
pub(super) struct Bookmark {
    pub(super) text: String,
    pub(super) page: usize,
    pub(super) y: f32,
}

/// A document with everything in its place.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) pages: Vec<Vec<Mark>>,
    pub(super) nodes: Vec<Node>,
    pub(super) bookmarks: Vec<Bookmark>,
}

impl Layout {
    /// Lays the parts out, and stops when there are more than `most_pages`.
    pub(super) fn new(blocks: &[Block], faces: &Faces<'_>, most_pages: usize) -> Self {
        let mut setter = Setter {
            faces,
            layout: Self {
                pages: vec![Vec::new()],
                nodes: Vec::new(),
                bookmarks: Vec::new(),
            },
            y: TOP,
            most_pages,
        };
        for (number, block) in blocks.iter().enumerate() {
            if setter.is_over() {
                break;
            }
            setter.block(block, &blocks[number + 1..]);
        }
        setter.layout
    }
}

/// Lines of text that are broken but not placed.
#[derive(Clone)]
struct Broken {
    legible: Rc<Legible>,
    lines: Vec<Range<usize>>,
    style: Style,
    node: Option<NodeNumber>,
}

impl Broken {
    fn height(&self) -> f32 {
        self.lines.iter().map(|_| self.style.leading).sum()
    }

    /// The room without which it begins on the next page.
    fn least(&self) -> f32 {
        let kept = self.lines.iter().take(least(self.lines.len()));
        kept.map(|_| self.style.leading).sum()
    }
}

/// Places one part after the other.
struct Setter<'a> {
    faces: &'a Faces<'a>,
    layout: Layout,
    /// Where the next part begins.
    y: f32,
    most_pages: usize,
}

/// By how much the first line of an aside is moved down, so that it stands on the line of the text beside it.
const ASIDE_DROP: f32 = (BODY.leading - ASIDE.leading + (BODY.size - ASIDE.size) * 0.72) / 2.0;
/// Space between the columns of a table, between the paragraphs of a cell, and above and below a row.
const GUTTER: f32 = 14.0;
const BETWEEN: f32 = 6.0;
const PADDING: f32 = 5.0;
const LEAD_ABOVE: f32 = 8.0;
/// Space below a heading, and above that of a subsection.
const HEADING_BELOW: f32 = 4.0;
const SUBSECTION_ABOVE: f32 = 8.0;

impl Setter<'_> {
    fn block(&mut self, block: &Block, rest: &[Block]) {
        match block {
            Block::Title(text) => self.heading(1, text, (TITLE, 0.0), rest),
            Block::Lead(text) => self.lead(text),
            Block::Section(text) => self.heading(2, text, (SECTION, 22.0), rest),
            Block::Subsection(text) => self.heading(3, text, (SUBSECTION, SUBSECTION_ABOVE), rest),
            Block::Paragraph(text) => {
                if introduces(text, rest) {
                    self.need(self.introduction(text, rest));
                }
                self.paragraph(text, BODY, 0.0, 8.0);
            }
            Block::List(items) => self.list(items),
            Block::Table(table) => self.table(table),
        }
    }

    fn node(&mut self, role: Role, parent: Option<NodeNumber>) -> NodeNumber {
        self.layout.nodes.push(Node {
            role,
            parent,
            title: String::new(),
        });
        self.layout.nodes.len() - 1
    }

    fn broken(&self, text: &str, style: Style, width: f32, node: Option<NodeNumber>) -> Broken {
        let legible = Legible::new(text, style.bold, self.faces);
        let lines = lines(&legible, width / style.size, self.faces);
        Broken {
            legible: Rc::new(legible),
            lines,
            style,
            node,
        }
    }

    fn mark(&mut self, mark: Mark) {
        // There is always a page.
        if let Some(page) = self.layout.pages.last_mut() {
            page.push(mark);
        }
    }

    fn turn(&mut self) {
        self.layout.pages.push(Vec::new());
        self.y = TOP;
    }

    /// Whether there are too many pages already.
    fn is_over(&self) -> bool {
        self.layout.pages.len() > self.most_pages
    }

    fn is_at_top(&self) -> bool {
        self.y <= TOP
    }

    /// Goes on to the next page unless there is room for this much.
    fn need(&mut self, height: f32) {
        if self.y + height > LOWEST && !self.is_at_top() {
            self.turn();
        }
    }

    fn rule(&mut self, (x, y): (f32, f32), (width, height): (f32, f32), grey: u8) {
        self.mark(Mark::Rule {
            x,
            y,
            width,
            height,
            grey,
        });
    }

    /// Draws lines downwards from `y`, and returns where they end.
    fn draw(&mut self, broken: &Broken, lines: Range<usize>, x: f32, mut y: f32) -> f32 {
        let Style { size, leading, .. } = broken.style;
        for range in &broken.lines[lines] {
            self.mark(Mark::Line {
                legible: Rc::clone(&broken.legible),
                range: range.clone(),
                style: broken.style,
                x,
                // Letters reach further up than down.
                baseline: y + (leading + size * 0.72) / 2.0,
                node: broken.node,
            });
            y += leading;
        }
        y
    }

    fn heading(&mut self, level: u16, text: &str, (style, above): (Style, f32), rest: &[Block]) {
        let node = self.node(Role::Heading(level), None);
        let broken = self.broken(text, style, WIDTH, Some(node));
        self.layout.nodes[node]
            .title
            .clone_from(&broken.legible.text);
        let above = if self.is_at_top() { 0.0 } else { above };
        self.need(above + broken.height() + HEADING_BELOW + self.beginning(rest));
        self.y += if self.is_at_top() { 0.0 } else { above };
        let (page, y) = (self.layout.pages.len() - 1, self.y);
        self.layout.bookmarks.extend((level == 2).then(|| Bookmark {
            text: text.to_owned(),
            page,
            y,
        }));
        self.y = self.draw(&broken, 0..broken.lines.len(), SIDE, self.y) + HEADING_BELOW;
    }

    /// Draws a text, over several pages if it must be. Leaves no single line at the end or the beginning of a page.
    fn flow(&mut self, broken: &Broken, x: f32) {
        let mut from = 0;
        let total = broken.lines.len();
        while from < total {
            let left = total - from;
            let mut fit = room(self.y, broken.style).min(left);
            if fit < least(left) && !self.is_at_top() {
                self.turn();
                continue;
            }
            if fit + 1 == left && fit > 1 {
                fit -= 1;
            }
            let fit = fit.max(1);
            self.y = self.draw(broken, from..from + fit, x, self.y);
            from += fit;
        }
    }

    /// What must stand on the page of a heading before these blocks: a table's first row, or two lines.
    fn beginning(&self, blocks: &[Block]) -> f32 {
        match blocks {
            [Block::Table(table), ..] => self.opening(table),
            [Block::Subsection(text), rest @ ..] => {
                let height = self.broken(text, SUBSECTION, WIDTH, None).height();
                SUBSECTION_ABOVE + height + HEADING_BELOW + self.beginning(rest)
            }
            [Block::Paragraph(text), rest @ ..] if introduces(text, rest) => {
                self.introduction(text, rest)
            }
            _ => 4.0 * BODY.leading,
        }
    }

    /// The height of a sentence that introduces a table or a list, with the beginning of that.
    fn introduction(&self, text: &str, rest: &[Block]) -> f32 {
        let follows = match rest {
            [Block::Table(table), ..] => self.opening(table),
            // The most that any first item needs.
            _ => 3.0 * BODY.leading,
        };
        let lines = self.broken(text, BODY, WIDTH, None).height();
        lines.min(LOWEST / 4.0) + 8.0 + follows
    }

    /// The height of a table's header and first row, which stay together; of a table without a header, as a rule of all rows.
    fn opening(&self, table: &Table) -> f32 {
        let Some(head) = self.titles(table) else {
            return short(table).min(LOWEST / 2.0);
        };
        let row = table.rows.first().into_iter().flatten().enumerate();
        let row: Vec<Vec<Broken>> = row
            .map(|(column, cell)| self.paragraphs(table, column, cell))
            .collect();
        let whole = tallest(&row);
        let row = if is_kept(whole) {
            whole
        } else {
            let first = row.iter().filter_map(|cell| Some(cell.first()?.height()));
            let kept = first.filter(|height| is_kept(*height));
            kept.fold(3.0 * BODY.leading, f32::max)
        };
        tallest(&head) + row + 4.0 * PADDING
    }

    /// The cells of a table's header, which belong to no node yet.
    fn titles(&self, table: &Table) -> Option<Vec<Vec<Broken>>> {
        let titles = table.header.as_ref()?.iter().enumerate();
        let cell = |(column, title): (usize, &String)| {
            vec![self.broken(title, HEADER, column_width(table, column), None)]
        };
        Some(titles.map(cell).collect())
    }

    /// The paragraphs of a cell, which belong to no node yet.
    fn paragraphs(&self, table: &Table, column: usize, cell: &Cell) -> Vec<Broken> {
        let (style, width) = (cell_style(cell), column_width(table, column));
        let texts = cell.paragraphs.iter();
        texts
            .map(|text| self.broken(text, style, width, None))
            .collect()
    }

    fn paragraph(&mut self, text: &str, style: Style, x: f32, below: f32) {
        let node = self.node(Role::Paragraph, None);
        let broken = self.broken(text, style, WIDTH - x, Some(node));
        self.flow(&broken, SIDE + x);
        self.y += below;
    }

    /// The lead stands beside a bar.
    fn lead(&mut self, text: &str) {
        self.y += LEAD_ABOVE;
        let (page, from) = (self.layout.pages.len(), self.y);
        self.paragraph(text, LEAD, 14.0, 0.0);
        if page == self.layout.pages.len() {
            self.rule((SIDE, from + 1.0), (3.0, self.y - from - 2.0), 0x33);
        }
        self.y += 14.0;
    }

    fn list(&mut self, items: &[(String, String)]) {
        let list = self.node(Role::List, None);
        for (label, text) in items {
            let item = self.node(Role::Item, Some(list));
            let labelled = self.node(Role::Label, Some(item));
            let body = self.node(Role::ItemBody, Some(item));
            let label = self.broken(label, BODY, WIDTH, Some(labelled));
            let broken = self.broken(text, BODY, WIDTH - 20.0, Some(body));
            self.need(broken.least());
            self.draw(&label, 0..1, SIDE + 2.0, self.y);
            self.flow(&broken, SIDE + 20.0);
            self.y += 4.0;
        }
        self.y += 6.0;
    }

    fn table(&mut self, table: &Table) {
        let node = self.node(Role::Table, None);
        let again = self.titles(table);
        let mut head = again.clone();
        if let Some(head) = &mut head {
            let group = self.node(Role::TableHead, Some(node));
            let row = self.node(Role::Row, Some(group));
            for title in head.iter_mut().flatten() {
                title.node = Some(self.node(Role::ColumnHeader, Some(row)));
            }
        }
        let body = self.node(Role::TableBody, Some(node));
        self.need(self.opening(table));
        self.head(table, head.as_deref());
        for row in &table.rows {
            if self.is_over() {
                return;
            }
            let number = self.node(Role::Row, Some(body));
            let cells: Vec<Vec<Broken>> = row
                .iter()
                .enumerate()
                .map(|(column, cell)| self.cell(table, column, cell, number))
                .collect();
            self.row(table, &cells, again.as_deref());
        }
        self.y += 10.0;
    }

    fn cell(&mut self, table: &Table, column: usize, cell: &Cell, row: NodeNumber) -> Vec<Broken> {
        let role = match (&table.header, column) {
            (None, 0) => Role::RowHeader,
            _ => Role::Data,
        };
        let node = self.node(role, Some(row));
        let mut paragraphs = self.paragraphs(table, column, cell);
        for paragraph in &mut paragraphs {
            paragraph.node = Some(self.node(Role::Paragraph, Some(node)));
        }
        paragraphs
    }

    fn head(&mut self, table: &Table, head: Option<&[Vec<Broken>]>) {
        match head {
            Some(head) => {
                self.cells(table, head, &mut vec![0; head.len()]);
                self.rule((SIDE, self.y - 0.5), (WIDTH, 1.0), 0x33);
            }
            None => self.rule((SIDE, self.y), (WIDTH, 0.5), 0x99),
        }
    }

    /// Draws a row, over several pages if it is too tall for what is left of this one.
    fn row(&mut self, table: &Table, cells: &[Vec<Broken>], head: Option<&[Vec<Broken>]>) {
        let height = tallest(cells);
        if self.y + height + 2.0 * PADDING > LOWEST && is_kept(height) {
            self.turn();
            self.head(table, head);
        }
        let mut drawn = vec![0; cells.len()];
        while !self.cells(table, cells, &mut drawn) {
            self.turn();
            self.head(table, head);
        }
        self.rule((SIDE, self.y), (WIDTH, 0.5), 0x99);
    }

    /// Draws as many lines of each cell as fit, from those already drawn on. Returns whether all are drawn.
    fn cells(&mut self, table: &Table, cells: &[Vec<Broken>], drawn: &mut [usize]) -> bool {
        let from = self.y + PADDING;
        let (mut lowest, mut x, mut whole) = (from, SIDE, true);
        for (column, (cell, drawn)) in cells.iter().zip(drawn).enumerate() {
            let aside = cell.first().is_some_and(|broken| broken.style == ASIDE);
            let mut y = from + if aside { ASIDE_DROP } else { 0.0 };
            let mut skipped = 0;
            for broken in cell {
                let total = broken.lines.len();
                let first = drawn.saturating_sub(skipped).min(total);
                let left = total - first;
                let fit = match room(y + PADDING, broken.style).min(left) {
                    fit if fit < left && first == 0 && is_kept(broken.height()) => 0,
                    // Progress, whatever the sizes.
                    0 if *drawn == 0 && from <= TOP + PADDING => 1,
                    fit => fit,
                };
                y = self.draw(broken, first..first + fit, x, y)
                    + if fit > 0 { BETWEEN } else { 0.0 };
                *drawn += fit;
                skipped += total;
                if first + fit < total {
                    whole = false;
                    break;
                }
            }
            lowest = lowest.max(y - BETWEEN);
            x += table.columns[column] * (WIDTH + GUTTER);
        }
        self.y = lowest + PADDING;
        whole
    }
}

/// How many of this many lines must stand together at the end of a page: two, or all three where the third would stand alone.
fn least(lines: usize) -> usize {
    if lines == 3 { 3 } else { lines.min(2) }
}

/// Whether a paragraph belongs to what follows: it ends with a colon, or a table follows.
fn introduces(text: &str, rest: &[Block]) -> bool {
    text.ends_with(':') || matches!(rest, [Block::Table(_), ..])
}

/// Lines that fit between `y` and the end of the page.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "not negative, and at most the lines of a page"
)]
fn room(y: f32, style: Style) -> usize {
    ((LOWEST - y).max(0.0) / style.leading + 0.01) as usize
}

/// The height of a table without a header, whose rows have two lines at most as a rule.
fn short(table: &Table) -> f32 {
    let row = 2.0 * (BODY.leading + PADDING);
    table.rows.iter().map(|_| row).sum()
}

/// Whether a row or a paragraph of this height is kept together: unless it is unusually tall.
fn is_kept(height: f32) -> bool {
    height < LOWEST / 2.0
}

fn cell_style(cell: &Cell) -> Style {
    if cell.aside { ASIDE } else { BODY }
}

fn tallest(cells: &[Vec<Broken>]) -> f32 {
    let height = |cell: &Vec<Broken>| {
        cell.iter()
            .map(|broken| broken.height() + BETWEEN)
            .sum::<f32>()
            - BETWEEN
    };
    cells.iter().map(height).fold(0.0, f32::max)
}

fn column_width(table: &Table, column: usize) -> f32 {
    table.columns[column] * (WIDTH + GUTTER) - GUTTER
}

#[cfg(test)]
mod tests;

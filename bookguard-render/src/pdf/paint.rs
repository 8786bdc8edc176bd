//! Writes the pages as a PDF file, tagged for screen readers.

use std::num::NonZeroU16;

use bookguard_core::model::Timestamp;
use krilla::color::luma;
use krilla::configure::{Accessibility, Archival, ConfigurationBuilder};
use krilla::destination::XyzDestination;
use krilla::embed::{AssociationKind, EmbeddedFile, MimeType};
use krilla::error::KrillaResult;
use krilla::geom::{PathBuilder, Point, Rect};
use krilla::metadata::{DateTime, Metadata};
use krilla::outline::{Outline, OutlineNode};
use krilla::page::PageSettings;
use krilla::paint::Fill;
use krilla::surface::Surface;
use krilla::tagging::{
    Artifact, ArtifactType, ContentTag, Identifier, ListNumbering, Node as Tagged, SpanTag,
    TableHeaderScope, Tag, TagGroup, TagKind, TagTree,
};
use krilla::{Document, SerializeSettings};

use super::content::Told;
use super::fonts::Faces;
use super::layout::{FOOTER, Layout, Mark, Node, NodeNumber, PAGE, Role, SIDE, Style};
use super::legible::Legible;
use super::shaping::shape;

/// Writes the file. What is attached makes it an archive, which claims PDF/A-3b and PDF/UA-1.
pub(super) fn paint(
    layout: &Layout,
    told: &Told,
    faces: &Faces<'_>,
    attached: Option<&str>,
) -> KrillaResult<Vec<u8>> {
    let mut document = Document::new_with(settings(attached.is_some()));
    let mut content: Vec<Vec<Identifier>> = layout.nodes.iter().map(|_| Vec::new()).collect();
    let total = layout.pages.len();
    for (number, marks) in layout.pages.iter().enumerate() {
        let settings = PageSettings::from_wh(PAGE.0, PAGE.1).unwrap_or_default();
        let mut page = document.start_page_with(settings);
        let mut surface = page.surface();
        let mut painter = Painter {
            surface: &mut surface,
            faces,
            content: &mut content,
            open: Open::Nothing,
        };
        marks.iter().for_each(|mark| painter.mark(mark));
        painter.footer(
            &told.packet.booking.booking_id.to_string(),
            &format!("Page {} of {total}", number + 1),
        );
        painter.close();
        surface.finish();
        page.finish();
    }
    document.set_tag_tree(tree(&layout.nodes, content));
    document.set_metadata(metadata(told));
    if let Some(packet) = attached {
        document.set_outline(outline(layout));
        document.embed_file(embedded(packet, told.packet.created_at));
    }
    document.finish()
}

fn settings(archive: bool) -> SerializeSettings {
    let claims = ConfigurationBuilder::new()
        .with_archival_validator(Archival::A3_B)
        .with_accessibility_validator(Accessibility::UA1);
    SerializeSettings {
        configuration: if archive {
            claims
        } else {
            ConfigurationBuilder::new()
        }
        .finish()
        .unwrap_or_default(),
        ..SerializeSettings::default()
    }
}

/// What the surface is drawing for.
#[derive(Clone, Copy, PartialEq)]
enum Open {
    Nothing,
    Content(NodeNumber),
    Decoration(ArtifactType),
}

struct Painter<'a, 'b> {
    surface: &'b mut Surface<'a>,
    faces: &'b Faces<'b>,
    /// The drawn parts of each node.
    content: &'b mut Vec<Vec<Identifier>>,
    open: Open,
}

impl Painter<'_, '_> {
    fn close(&mut self) {
        if self.open != Open::Nothing {
            self.surface.end_tagged();
            self.open = Open::Nothing;
        }
    }

    /// What follows belongs to this.
    fn belongs(&mut self, to: Open) {
        if self.open == to {
            return;
        }
        self.close();
        match to {
            Open::Nothing => {}
            Open::Content(node) => {
                let span = ContentTag::Span(SpanTag::empty());
                self.content[node].push(self.surface.start_tagged(span));
            }
            Open::Decoration(kind) => {
                self.surface
                    .start_tagged(ContentTag::Artifact(Artifact::with_kind(kind)));
            }
        }
        self.open = to;
    }

    fn mark(&mut self, mark: &Mark) {
        match mark {
            Mark::Rule {
                x,
                y,
                width,
                height,
                grey,
            } => {
                self.belongs(Open::Decoration(ArtifactType::Layout));
                self.fill(*grey);
                if let Some(rect) = Rect::from_xywh(*x, *y, *width, *height) {
                    let mut path = PathBuilder::new();
                    path.push_rect(rect);
                    path.finish()
                        .iter()
                        .for_each(|path| self.surface.draw_path(path));
                }
            }
            Mark::Line {
                legible,
                range,
                style,
                x,
                baseline,
                node,
            } => {
                self.belongs(match node {
                    Some(node) => Open::Content(*node),
                    None => Open::Decoration(ArtifactType::PaginationOther),
                });
                let at = Point::from_xy(*x, *baseline);
                self.line(legible, range.clone(), *style, at);
            }
        }
    }

    fn fill(&mut self, grey: u8) {
        self.surface.set_fill(Some(Fill {
            paint: luma::Color::new(grey).into(),
            ..Fill::default()
        }));
    }

    fn line(
        &mut self,
        legible: &Legible,
        range: std::ops::Range<usize>,
        style: Style,
        mut at: Point,
    ) {
        self.fill(if style.grey { 0x4d } else { 0x11 });
        let text = &legible.text[range.clone()];
        for run in shape(legible, &range, self.faces) {
            let font = self.faces.get(run.font).embedded.clone();
            self.surface
                .draw_glyphs(at, &run.glyphs, font, text, style.size, false);
            at.x += run.width() * style.size;
        }
    }

    fn footer(&mut self, left: &str, right: &str) {
        self.belongs(Open::Decoration(ArtifactType::Footer));
        let y = PAGE.1 - 44.0;
        let left = Legible::new(left, false, self.faces);
        self.line(&left, 0..left.text.len(), FOOTER, Point::from_xy(SIDE, y));
        let right = Legible::new(right, false, self.faces);
        let whole = 0..right.text.len();
        let width: f32 = shape(&right, &whole, self.faces)
            .iter()
            .map(|run| run.width())
            .sum();
        let x = PAGE.0 - SIDE - width * FOOTER.size;
        self.line(&right, whole, FOOTER, Point::from_xy(x, y));
    }
}

/// The structure of the document, with what was drawn for each of its parts.
fn tree(nodes: &[Node], mut content: Vec<Vec<Identifier>>) -> TagTree {
    let mut children: Vec<Vec<Tagged>> = nodes.iter().map(|_| Vec::new()).collect();
    let mut tree = TagTree::new().with_lang(Some("en".to_owned()));
    let mut top = Vec::new();
    // Children stand after their parents, so from the last to the first every node is complete when it is reached.
    for (number, node) in nodes.iter().enumerate().rev() {
        let mut group = TagGroup::new(kind(node));
        for identifier in content[number].drain(..) {
            group.push(identifier);
        }
        children[number]
            .drain(..)
            .rev()
            .for_each(|child| group.push(child));
        match node.parent {
            Some(parent) => children[parent].push(group.into()),
            None => top.push(group),
        }
    }
    top.into_iter().rev().for_each(|group| tree.push(group));
    tree
}

fn kind(node: &Node) -> TagKind {
    match node.role {
        Role::Heading(level) => {
            let level = NonZeroU16::new(level).unwrap_or(NonZeroU16::MIN);
            Tag::Hn(level, Some(node.title.clone())).into()
        }
        Role::Paragraph => Tag::P.into(),
        Role::List => Tag::L(ListNumbering::None).into(),
        Role::Item => Tag::LI.into(),
        Role::Label => Tag::Lbl.into(),
        Role::ItemBody => Tag::LBody.into(),
        Role::Table => Tag::Table.into(),
        Role::TableHead => Tag::THead.into(),
        Role::TableBody => Tag::TBody.into(),
        Role::Row => Tag::TR.into(),
        Role::ColumnHeader => Tag::TH(TableHeaderScope::Column).into(),
        Role::RowHeader => Tag::TH(TableHeaderScope::Row).into(),
        Role::Data => Tag::TD.into(),
    }
}

fn outline(layout: &Layout) -> Outline {
    let mut outline = Outline::new();
    for bookmark in &layout.bookmarks {
        let destination = XyzDestination::new(bookmark.page, Point::from_xy(SIDE, bookmark.y));
        outline.push_child(OutlineNode::new(bookmark.text.clone(), destination));
    }
    outline
}

fn metadata(told: &Told) -> Metadata {
    Metadata::new()
        .title(told.title())
        .description(
            "A booking, its terms and what happened, printed from a signed evidence packet."
                .to_owned(),
        )
        .creator("Bookguard".to_owned())
        .language("en".to_owned())
        .creation_date(date(told.packet.created_at))
        .document_id(told.packet.booking.booking_id.to_string())
}

fn embedded(packet: &str, at: Timestamp) -> EmbeddedFile {
    EmbeddedFile {
        path: "packet.json".to_owned(),
        mime_type: MimeType::new("application/json"),
        description: Some("The signed evidence packet that this document prints".to_owned()),
        association_kind: AssociationKind::Source,
        data: packet.as_bytes().to_vec().into(),
        modification_date: Some(date(at)),
        compress: Some(true),
        location: None,
    }
}

fn date(at: Timestamp) -> DateTime {
    let at = at.to_utc();
    let part = |format: &str| at.format(format).to_string().parse().unwrap_or_default();
    let year = at.format("%Y").to_string().parse().unwrap_or_default();
    DateTime::new(year)
        .month(part("%m"))
        .day(part("%d"))
        .hour(part("%H"))
        .minute(part("%M"))
        .second(part("%S"))
        .utc_offset_hour(0)
        .utc_offset_minute(0)
}

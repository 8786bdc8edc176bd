use super::*;
use crate::Maker;

fn cell(text: &str) -> Cell {
    Cell {
        paragraphs: vec![text.to_owned()],
        aside: false,
    }
}

/// The page on which something with this role, or whose parent has it, is drawn first.
fn first_page(layout: &Layout, role: Role) -> Option<usize> {
    let has = |node: &Node| node.role == role;
    let is_of = |mark: &Mark| {
        let Mark::Line {
            node: Some(number), ..
        } = mark
        else {
            return false;
        };
        let node = &layout.nodes[*number];
        has(node) || node.parent.is_some_and(|parent| has(&layout.nodes[parent]))
    };
    (layout.pages.iter()).position(|page| page.iter().any(is_of))
}

#[test]
fn no_heading_stands_on_another_page_than_the_first_row_below_it() {
    let maker = Maker::default();
    let faces = maker.fonts.faces().unwrap();
    let tall = "A sentence of the story, which is as long as such sentences are. ".repeat(8);
    let table = || {
        Block::Table(Table {
            columns: vec![0.25, 0.75],
            header: Some(vec!["When".to_owned(), "What".to_owned()]),
            rows: vec![vec![cell("2031-06-20"), cell(&tall)]; 2],
        })
    };
    let (heading, told) = ("Timeline".to_owned(), "It was told thus:".to_owned());
    let below = [
        vec![Block::Section(heading.clone()), table()],
        vec![
            Block::Section(heading.clone()),
            Block::Paragraph(told),
            table(),
        ],
        vec![
            Block::Section(heading.clone()),
            Block::Subsection(heading),
            table(),
        ],
    ];
    for lines in 0..60 {
        for below in &below {
            let above = (0..lines).map(|_| Block::Paragraph("A line.".to_owned()));
            let blocks: Vec<Block> = above.chain(below.iter().cloned()).collect();
            let layout = Layout::new(&blocks, &faces, usize::MAX);
            let heading = first_page(&layout, Role::Heading(2));
            assert!(heading.is_some());
            assert_eq!(heading, first_page(&layout, Role::Data), "after {lines}");
        }
    }
}

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
    let note = "An entry has a number.".to_owned();
    let below = [
        vec![Block::Section(heading.clone()), table()],
        vec![
            Block::Section(heading.clone()),
            Block::Paragraph(told),
            table(),
        ],
        vec![
            Block::Section(heading.clone()),
            Block::Paragraph(note),
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

#[test]
fn no_sentence_of_a_tall_row_is_broken_over_two_pages() {
    let maker = Maker::default();
    let faces = maker.fonts.faces().unwrap();
    let sentence = "A sentence of what is proven, as long as such sentences are.".to_owned();
    let sentences = Cell {
        paragraphs: vec![sentence; 12],
        aside: false,
    };
    let table = Block::Table(Table {
        columns: vec![0.5, 0.5],
        header: Some(vec!["It proves".to_owned(), "It does not".to_owned()]),
        rows: vec![vec![sentences.clone(), sentences]],
    });
    let mut halves = 0;
    for lines in 0..60 {
        let above = (0..lines).map(|_| Block::Paragraph("A line.".to_owned()));
        let below = [Block::Section("What this proves".to_owned()), table.clone()];
        let blocks: Vec<Block> = above.chain(below).collect();
        let layout = Layout::new(&blocks, &faces, usize::MAX);
        let heading = first_page(&layout, Role::Heading(2));
        assert_eq!(heading, first_page(&layout, Role::Data), "after {lines}");
        let mut pages = vec![None; layout.nodes.len()];
        let mut all = std::collections::BTreeSet::new();
        for (number, page) in layout.pages.iter().enumerate() {
            for mark in page {
                let Mark::Line {
                    node: Some(node), ..
                } = mark
                else {
                    continue;
                };
                let parent = layout.nodes[*node].parent;
                if parent.is_some_and(|parent| layout.nodes[parent].role == Role::Data) {
                    let first = *pages[*node].get_or_insert(number);
                    assert_eq!(first, number, "after {lines}");
                    all.insert(number);
                }
            }
        }
        assert_eq!(pages.iter().flatten().count(), 24, "after {lines}");
        halves += usize::from(all.len() > 1);
    }
    assert!(halves > 10, "{halves}");
}

#[test]
fn no_label_of_a_list_stands_on_another_page_than_its_text() {
    let maker = Maker::default();
    let faces = maker.fonts.faces().unwrap();
    let told = Block::Paragraph("It was told thus:".to_owned());
    let sentence = "A sentence of the terms, which is as long as such sentences are. ";
    let mut counts = std::collections::BTreeSet::new();
    for sentences in 1..6 {
        let list = Block::List(vec![("–".to_owned(), sentence.repeat(sentences))]);
        for left in 0..200_u8 {
            for blocks in [&[list.clone()][..], &[told.clone(), list.clone()]] {
                let mut setter = Setter {
                    faces: &faces,
                    layout: Layout {
                        pages: vec![Vec::new()],
                        nodes: Vec::new(),
                        bookmarks: Vec::new(),
                    },
                    y: LOWEST - f32::from(left),
                    most_pages: usize::MAX,
                };
                for (number, block) in blocks.iter().enumerate() {
                    setter.block(block, &blocks[number + 1..]);
                }
                let layout = setter.layout;
                let label = first_page(&layout, Role::Label);
                assert!(label.is_some());
                let case = format!("{sentences} sentences, {left} points left");
                assert_eq!(label, first_page(&layout, Role::ItemBody), "{case}");
                if blocks.len() > 1 {
                    assert_eq!(label, first_page(&layout, Role::Paragraph), "{case}");
                }
                let body = |mark: &&Mark| matches!(mark, Mark::Line { node: Some(node), .. } if layout.nodes[*node].role == Role::ItemBody);
                counts.insert(layout.pages.iter().flatten().filter(body).count());
            }
        }
    }
    // Of three lines, the last would stand alone.
    assert!(counts.contains(&3), "{counts:?}");
}

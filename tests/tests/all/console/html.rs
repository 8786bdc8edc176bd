//! Reads the console's pages. Their attributes always stand in double quotes, and every `<` of a text is escaped.

/// A tag, such as `input` or `/form`, and the text up to the next one.
pub struct Tag {
    pub name: String,
    attributes: Vec<(String, String)>,
    pub text: String,
}

/// A form that is sent with POST.
#[derive(Debug, Clone)]
pub struct Form {
    /// Empty: the address of its page.
    pub action: String,
    /// Its fields as a browser sends them when nobody types.
    pub fields: Vec<(String, String)>,
}

impl Tag {
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    pub fn attributes(&self) -> impl Iterator<Item = &str> {
        self.attributes.iter().map(|(name, _)| name.as_str())
    }
}

/// The tags of a page, in order.
pub fn tags(html: &str) -> Vec<Tag> {
    html.split('<').skip(1).map(tag).collect()
}

fn tag(text: &str) -> Tag {
    let (inside, text) = text
        .split_once('>')
        .unwrap_or_else(|| panic!("a tag without an end: {text:.80}"));
    let (name, mut rest) = inside.split_once(' ').unwrap_or((inside, ""));
    let mut attributes = Vec::new();
    while !rest.trim().is_empty() {
        let end = rest.find([' ', '=']).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        let value = match after.strip_prefix("=\"") {
            Some(quoted) => {
                let (value, after) = quoted.split_once('"').expect("a quote has an end");
                rest = after;
                unescaped(value)
            }
            None => {
                rest = after;
                String::new()
            }
        };
        rest = rest.strip_prefix(' ').unwrap_or(rest);
        attributes.push((name.to_owned(), value));
    }
    Tag {
        name: name.to_ascii_lowercase(),
        attributes,
        text: unescaped(text),
    }
}

pub fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&amp;", "&")
}

/// The forms of a page that change something.
pub fn forms(html: &str) -> Vec<Form> {
    let mut forms = Vec::new();
    let mut open: Option<Form> = None;
    // The name of the select element that an option belongs to, and whether a value was chosen.
    let mut select: Option<(String, bool)> = None;
    for tag in tags(html) {
        if tag.name == "form" && tag.get("method") == Some("post") {
            open = Some(Form {
                action: tag.get("action").unwrap_or_default().to_owned(),
                fields: Vec::new(),
            });
        }
        let Some(form) = &mut open else { continue };
        let value = || tag.get("value").unwrap_or_default().to_owned();
        match (tag.name.as_str(), tag.get("name")) {
            ("input", Some(name)) => {
                let is_box = tag.get("type") == Some("checkbox");
                if !is_box || tag.get("checked").is_some() {
                    form.fields.push((name.to_owned(), value()));
                }
            }
            ("textarea", Some(name)) => form.fields.push((name.to_owned(), tag.text.clone())),
            ("select", Some(name)) => {
                form.fields.push((name.to_owned(), String::new()));
                select = Some((name.to_owned(), false));
            }
            ("option", _) => {
                let (_, chosen) = select.as_mut().expect("an option stands in a select");
                let last = form.fields.last_mut().expect("its field was just added");
                // The first one stands for itself until another is selected.
                if tag.get("selected").is_some() || !*chosen {
                    last.1 = value();
                    *chosen = true;
                }
            }
            ("/form", _) => forms.extend(open.take()),
            _ => {}
        }
    }
    forms
}

impl Form {
    /// The same form with what somebody typed or chose.
    #[must_use]
    pub fn with(&self, typed: &[(&str, &str)]) -> Self {
        let mut fields = self.fields.clone();
        fields.retain(|(name, _)| !typed.iter().any(|(known, _)| known == name));
        fields.extend(
            typed
                .iter()
                .map(|(name, text)| ((*name).to_owned(), (*text).to_owned())),
        );
        Self {
            fields,
            ..self.clone()
        }
    }

    /// The value of a field.
    #[track_caller]
    pub fn value(&self, name: &str) -> &str {
        let found = self.fields.iter().find(|(known, _)| known == name);
        let found = found.unwrap_or_else(|| panic!("no {name} in {self:?}"));
        &found.1
    }
}

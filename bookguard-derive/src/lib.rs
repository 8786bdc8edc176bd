//! `#[derive(Schema)]`: how a type appears in the OpenAPI document, read from the attributes by which serde writes it, so that
//! nothing is said twice. For Bookguard's own crates only; it may change in any version.

use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;
use syn::meta::ParseNestedMeta;
use syn::{
    Attribute, Data, DeriveInput, Error, Expr, ExprLit, Field, Fields, Ident, Lit, LitStr, Meta,
    Result, Token, Variant,
};

/// When serde may leave a member out: when it is the default of its type.
const IS_DEFAULT: [&str; 5] = [
    "BTreeMap::is_empty",
    "Option::is_none",
    "String::is_empty",
    "Vec::is_empty",
    "std::ops::Not::not",
];

/// Implements poem-openapi's `Type` for a struct with named members or an enum of plain words.
///
/// - Names, and what is flattened or skipped, are serde's: `rename`, `rename_all`, `flatten`, `skip`.
/// - A member that serde leaves out (`skip_serializing_if`) is optional, with the default of its type;
///   `#[schema(required)]` keeps it required. Any other `Option` is nullable.
/// - `#[schema(pattern = "…")]` gives a text's pattern.
/// - Doc comments become descriptions.
///
/// Attributes that it does not know do not compile, because they may change the form.
#[proc_macro_derive(Schema, attributes(schema))]
pub fn schema(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    implement(&input)
        .unwrap_or_else(Error::into_compile_error)
        .into()
}

fn implement(input: &DeriveInput) -> Result<TokenStream> {
    let ty = &input.ident;
    if !input.generics.params.is_empty() {
        return Err(Error::new_spanned(
            &input.generics,
            "a generic type has no schema of its own",
        ));
    }
    let (mut name, mut case) = (ty.to_string(), Case::default());
    read(&input.attrs, |attribute, meta| {
        match attribute {
            "serde(rename)" => name = text(meta)?,
            "serde(rename_all)" => case = Case::named(&meta.value()?.parse()?)?,
            "serde(deny_unknown_fields)" => {}
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    let about = about(&input.attrs);
    let component = quote! { registry, #name, ::std::any::type_name::<Self>(), #about };
    let register = match &input.data {
        Data::Struct(data) => {
            let Fields::Named(fields) = &data.fields else {
                return Err(Error::new_spanned(
                    ty,
                    "only a struct with named members has a schema",
                ));
            };
            let mut members = Vec::new();
            for field in &fields.named {
                members.extend(member(field, case)?);
            }
            quote! { ::bookguard_core::schema::object(#component, const { &[#(#members),*] }); }
        }
        Data::Enum(data) => {
            let words = data.variants.iter().map(|variant| word(variant, case));
            let words = words.collect::<Result<Vec<_>>>()?;
            quote! { ::bookguard_core::schema::words(#component, &[#(#words),*]); }
        }
        Data::Union(_) => return Err(Error::new_spanned(ty, "a union has no schema")),
    };
    Ok(quote! {
        impl ::poem_openapi::types::Type for #ty {
            const IS_REQUIRED: bool = true;
            type RawValueType = Self;
            type RawElementValueType = Self;
            fn name() -> ::std::borrow::Cow<'static, str> {
                ::std::borrow::Cow::Borrowed(#name)
            }
            fn schema_ref() -> ::poem_openapi::registry::MetaSchemaRef {
                ::bookguard_core::schema::reference(#name)
            }
            fn register(registry: &mut ::poem_openapi::registry::Registry) {
                #register
            }
            fn as_raw_value(&self) -> ::std::option::Option<&Self> {
                ::std::option::Option::Some(self)
            }
            fn raw_element_iter<'a>(&'a self) -> ::std::boxed::Box<dyn ::std::iter::Iterator<Item = &'a Self> + 'a> {
                ::std::boxed::Box::new(::std::iter::once(self))
            }
        }
    })
}

/// One `Member`, unless the field is skipped.
fn member(field: &Field, case: Case) -> Result<Option<TokenStream>> {
    let (ident, ty, about) = (&field.ident, &field.ty, about(&field.attrs));
    let mut name = ident.as_ref().map(|ident| case.of_field(ident));
    let (mut skipped, mut flattened, mut left_out, mut required) = (false, false, false, false);
    let mut form = TokenStream::new();
    read(&field.attrs, |attribute, meta| {
        match attribute {
            "serde(rename)" => name = Some(text(meta)?),
            // Only reading has a default, or a function of its own.
            "serde(default)" if meta.input.peek(Token![=]) => drop(text(meta)?),
            "serde(deserialize_with)" => drop(text(meta)?),
            "serde(default)" => {}
            "serde(skip)" => skipped = true,
            "serde(flatten)" => flattened = true,
            "serde(skip_serializing_if)" => {
                left_out = true;
                let when = text(meta)?;
                if !IS_DEFAULT.contains(&&*when) {
                    return Err(
                        meta.error(format!("`{when}` is not one of {}", IS_DEFAULT.join(", ")))
                    );
                }
            }
            "schema(required)" => required = true,
            "schema(pattern)" => {
                let pattern = text(meta)?;
                form.extend(quote! { .pattern(#pattern) });
            }
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    let fault = match () {
        () if flattened && (left_out || !form.is_empty()) => {
            Some("what is flattened has no form of its own")
        }
        () if required && !left_out => Some("a member that is always written needs no `required`"),
        () => None,
    };
    if let Some(fault) = fault {
        return Err(Error::new_spanned(ident, fault));
    }
    if flattened {
        form.extend(quote! { .flattened() });
    }
    if left_out && !required {
        form.extend(quote! { .left_out::<#ty>() });
    }
    let member = quote! { ::bookguard_core::schema::Member::new::<#ty>(#name, #about) #form };
    Ok((!skipped).then_some(member))
}

fn word(variant: &Variant, case: Case) -> Result<String> {
    if !matches!(variant.fields, Fields::Unit) {
        return Err(Error::new_spanned(
            variant,
            "only a variant without members is a word",
        ));
    }
    let mut word = case.of_variant(&variant.ident);
    read(&variant.attrs, |attribute, meta| {
        if attribute == "serde(rename)" {
            word = text(meta)?;
        }
        Ok(attribute == "serde(rename)")
    })?;
    Ok(word)
}

/// Calls `known` for each attribute of serde and of this derive, such as `serde(rename)`; it says whether it knows it.
fn read(
    attrs: &[Attribute],
    mut known: impl FnMut(&str, &ParseNestedMeta<'_>) -> Result<bool>,
) -> Result<()> {
    for attr in attrs {
        let Some(of) = ["serde", "schema"]
            .into_iter()
            .find(|of| attr.path().is_ident(of))
        else {
            continue;
        };
        attr.parse_nested_meta(|meta| {
            let attribute = format!("{of}({})", meta.path.require_ident()?);
            match known(&attribute, &meta)? {
                true => Ok(()),
                false => Err(meta.error(format!(
                    "the derive of `Schema` does not know `{attribute}` here"
                ))),
            }
        })?;
    }
    Ok(())
}

fn text(meta: &ParseNestedMeta<'_>) -> Result<String> {
    Ok(meta.value()?.parse::<LitStr>()?.value())
}

/// serde's rules of `rename_all`, as far as they are used.
#[derive(Default, Clone, Copy)]
enum Case {
    #[default]
    AsWritten,
    Lower,
    Snake,
    Camel,
}

impl Case {
    fn named(rule: &LitStr) -> Result<Self> {
        Ok(match rule.value().as_str() {
            "lowercase" => Self::Lower,
            "snake_case" => Self::Snake,
            "camelCase" => Self::Camel,
            _ => {
                return Err(Error::new_spanned(
                    rule,
                    "expected lowercase, snake_case or camelCase",
                ));
            }
        })
    }

    /// Of a field, whose name is in snake case.
    fn of_field(self, ident: &Ident) -> String {
        let name = ident.unraw().to_string();
        match self {
            Self::AsWritten | Self::Lower | Self::Snake => name,
            Self::Camel => {
                let mut words = name.split('_').filter(|word| !word.is_empty());
                let first = words.next().unwrap_or_default().to_owned();
                words.fold(first, |name, word| {
                    name + &word[..1].to_ascii_uppercase() + &word[1..]
                })
            }
        }
    }

    /// Of a variant, whose name is in Pascal case.
    fn of_variant(self, ident: &Ident) -> String {
        let name = ident.unraw().to_string();
        match self {
            Self::AsWritten => name,
            Self::Lower => name.to_ascii_lowercase(),
            Self::Camel => name[..1].to_ascii_lowercase() + &name[1..],
            Self::Snake => name.chars().fold(String::new(), |name, letter| {
                let begins = letter.is_ascii_uppercase() && !name.is_empty();
                name + if begins { "_" } else { "" } + &letter.to_ascii_lowercase().to_string()
            }),
        }
    }
}

/// The doc comment as `Option<&'static str>`: its lines, without the spaces around them.
fn about(attrs: &[Attribute]) -> TokenStream {
    let lines = attrs.iter().filter_map(|attr| match &attr.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(ExprLit {
                lit: Lit::Str(line),
                ..
            }) => Some(line.value().trim().to_owned()),
            _ => None,
        },
        _ => None,
    });
    let lines = lines.collect::<Vec<_>>().join("\n");
    match lines.is_empty() {
        true => quote! { ::std::option::Option::None },
        false => quote! { ::std::option::Option::Some(#lines) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syn::parse_quote;

    #[test]
    fn what_could_be_written_otherwise_does_not_compile() {
        let refused: [(DeriveInput, &str); 13] = [
            (
                parse_quote!(
                    #[serde(tag = "kind")]
                    struct A {
                        b: u8,
                    }
                ),
                "not know `serde(tag)`",
            ),
            (
                parse_quote!(
                    #[serde(rename_all = "UPPERCASE")]
                    struct A {
                        b: u8,
                    }
                ),
                "expected lowercase",
            ),
            (
                parse_quote!(
                    struct A {
                        #[serde(with = "hex")]
                        b: u8,
                    }
                ),
                "not know `serde(with)`",
            ),
            (
                parse_quote!(
                    struct A {
                        #[serde(rename(serialize = "c"))]
                        b: u8,
                    }
                ),
                "expected `=`",
            ),
            (
                parse_quote!(
                    struct A {
                        #[serde(skip_serializing_if = "is_one")]
                        b: u8,
                    }
                ),
                "`is_one` is not one of",
            ),
            (
                parse_quote!(
                    struct A {
                        #[serde(flatten, skip_serializing_if = "Option::is_none")]
                        b: Option<B>,
                    }
                ),
                "form of its own",
            ),
            (
                parse_quote!(
                    struct A {
                        #[schema(required)]
                        b: u8,
                    }
                ),
                "needs no `required`",
            ),
            (
                parse_quote!(
                    struct A {
                        #[schema(pattren = "x")]
                        b: u8,
                    }
                ),
                "not know `schema(pattren)`",
            ),
            (
                parse_quote!(
                    enum A {
                        #[serde(skip)]
                        B,
                    }
                ),
                "not know `serde(skip)`",
            ),
            (
                parse_quote!(
                    enum A {
                        B(u8),
                    }
                ),
                "without members",
            ),
            (
                parse_quote!(
                    struct A(u8);
                ),
                "named members",
            ),
            (
                parse_quote!(
                    struct A<T> {
                        b: T,
                    }
                ),
                "generic",
            ),
            (parse_quote!(union A { b: u8 }), "union"),
        ];
        for (input, says) in refused {
            let error = implement(&input).expect_err(says).to_string();
            assert!(error.contains(says), "{error}");
        }
        let only_read: DeriveInput = parse_quote!(
            #[serde(deny_unknown_fields)]
            struct A {
                #[serde(default = "one", deserialize_with = "two")]
                b: u8,
                #[serde(default)]
                c: u8,
            }
        );
        implement(&only_read).expect("what is written is what is declared");
    }

    #[test]
    fn names_are_changed_as_serde_changes_them() {
        let fields = [
            (Case::AsWritten, "event_id", "event_id"),
            (Case::Lower, "event_id", "event_id"),
            (Case::Snake, "event_id", "event_id"),
            (Case::Camel, "event_id", "eventId"),
            (Case::Camel, "_event_id2", "eventId2"),
            (Case::Camel, "r#type", "type"),
        ];
        for (case, field, name) in fields {
            assert_eq!(case.of_field(&identifier(field)), name);
        }
        let variants = [
            (Case::AsWritten, "InReview", "InReview"),
            (Case::Lower, "InReview", "inreview"),
            (Case::Snake, "InReview", "in_review"),
            (Case::Snake, "Http4xx", "http4xx"),
            (Case::Camel, "InReview", "inReview"),
        ];
        for (case, variant, name) in variants {
            assert_eq!(case.of_variant(&identifier(variant)), name);
        }
    }

    fn identifier(text: &str) -> Ident {
        let parsed = syn::parse::Parser::parse_str(Ident::parse_any, text);
        parsed.expect("it is an identifier")
    }
}

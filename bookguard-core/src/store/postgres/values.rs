//! Values in the server's binary format.

use std::error::Error;

use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type};

use crate::store::conn::{Arg, Cell};

type Fallible<T> = Result<T, Box<dyn Error + Sync + Send>>;

impl ToSql for Arg<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Fallible<IsNull> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Int(n) if *ty == Type::INT8 => n.to_sql(ty, out),
            Self::Int(n) if *ty == Type::INT4 => i32::try_from(*n)?.to_sql(ty, out),
            Self::Text(text) if *ty == Type::TEXT => text.to_sql(ty, out),
            Self::Blob(bytes) if *ty == Type::BYTEA => bytes.as_ref().to_sql(ty, out),
            other => Err(format!("{} was given where {ty} belongs", kind(other)).into()),
        }
    }

    /// Accepts every type, because each value checks its own when it is converted.
    fn accepts(_: &Type) -> bool {
        true
    }

    tokio_postgres::types::to_sql_checked!();
}

/// Never the value itself: it may be a secret.
fn kind(arg: &Arg<'_>) -> &'static str {
    match arg {
        Arg::Null => "null",
        Arg::Int(_) => "a number",
        Arg::Text(_) => "text",
        Arg::Blob(_) => "bytes",
    }
}

impl<'a> FromSql<'a> for Cell {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Fallible<Self> {
        Ok(match *ty {
            Type::INT8 => Self::Int(i64::from_sql(ty, raw)?),
            Type::INT4 => Self::Int(i32::from_sql(ty, raw)?.into()),
            Type::BYTEA => Self::Blob(raw.to_vec()),
            _ => Self::Text(std::str::from_utf8(raw)?.to_owned()),
        })
    }

    fn from_sql_null(_: &Type) -> Fallible<Self> {
        Ok(Self::Null)
    }

    fn accepts(ty: &Type) -> bool {
        matches!(
            *ty,
            Type::INT8 | Type::INT4 | Type::BYTEA | Type::TEXT | Type::VARCHAR | Type::NAME
        )
    }
}

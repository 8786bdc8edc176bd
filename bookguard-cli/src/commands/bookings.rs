//! `bookings`: recorded, read and protected; what else happens to one has a file of its own.

use bookguard_core::features::bookings::{CreateBooking, GetBooking, ListBookings, ProtectBooking};
use bookguard_core::operation::Request;

use super::cli::BookingsCommand;
use super::{acceptances, add, at, cancel, new_booking, once_only, page, reschedules};
use crate::failure::Failure;
use crate::output::{Screen, bookings};
use crate::target::Target;

/// Does what was asked of bookings.
///
/// # Errors
/// Those of the operation.
pub(super) async fn run(
    target: &Target,
    command: BookingsCommand,
    screen: &Screen,
) -> Result<(), Failure> {
    match command {
        BookingsCommand::Create(args) => {
            let request = Request {
                body: new_booking::body(&args)?,
                ..Request::default()
            };
            screen.show(
                &target
                    .call::<CreateBooking>(once_only(request, args.once))
                    .await?,
                bookings::created,
            )
        }
        BookingsCommand::Get { booking_id } => screen.show(
            &target.call::<GetBooking>(at(&booking_id)).await?,
            bookings::booking,
        ),
        BookingsCommand::List {
            status,
            event_from,
            event_to,
            page: args,
        } => {
            let mut request = page(args);
            add(&mut request, "status", status);
            add(&mut request, "eventFrom", event_from);
            add(&mut request, "eventTo", event_to);
            screen.show(
                &target.call::<ListBookings>(request).await?,
                bookings::bookings,
            )
        }
        BookingsCommand::Protect { booking_id, once } => screen.show(
            &target
                .call::<ProtectBooking>(once_only(at(&booking_id), once))
                .await?,
            bookings::protected,
        ),
        BookingsCommand::Reschedule(args) => reschedules::run(target, *args, screen).await,
        BookingsCommand::Disclosure { booking_id } => {
            acceptances::disclosure(target, &booking_id, screen).await
        }
        BookingsCommand::Accept(args) => acceptances::accept(target, *args, screen).await,
        BookingsCommand::Evaluate(args) => cancel::evaluate(target, args, screen).await,
        BookingsCommand::Cancel(args) => cancel::run(target, &args, screen).await,
    }
}

//! The effect of an Idempotency-Key on a command.

use crate::features::fixture::*;

#[test]
fn a_remembered_answer_is_replayed_and_another_request_refused() {
    let remember = |request| Remember {
        key: [1; 32],
        request: [request; 32],
        encode: |_| Vec::new(),
    };
    let forget = |request| Envelope {
        remember: Some(remember(request)),
        ..command(ForgetAnswers)
    };
    let mut state = BatchState::default();
    state.prior.insert(
        [1; 32],
        RememberedAnswer::Stored {
            request: [2; 32],
            answer: Arc::from(&b"x"[..]),
        },
    );
    assert!(matches!(decide(&state, &forget(2)), Ok(Decision::Replay(answer)) if *answer == *b"x"));
    assert_eq!(code_of(&state, &forget(3)), "idempotency_key_reused");
    state.prior.insert(
        [1; 32],
        RememberedAnswer::Pending {
            request: [2; 32],
            command: 0,
        },
    );
    assert!(matches!(decide(&state, &forget(2)), Ok(Decision::Same(0))));
    assert_eq!(code_of(&state, &forget(3)), "idempotency_key_reused");
}

import Testing

@testable import CipherStore

/// Every state of a store's connections against every event.
@Suite struct ConnectionStateTests {
    typealias State = ConnectionState
    typealias Step = (state: State, action: State.Action?)

    private static let causes: [YieldCause] = [[], .request, .suspension, [.request, .suspension]]
    private static let states: [State] =
        [.open, .failed, .closed] + causes.filter { !$0.isEmpty }.map { .draining($0) }
        + causes.flatMap { [.closing($0), .away($0), .reopening($0)] }
    private static let events: [State.Event] = [
        .ask, .withdraw, .suspend, .resume, .drained, .gone, .stuck, .reopened, .postponed, .lost, .close,
    ]

    /// The result of each event in each state, as rules of the document, not as the code has them.
    private func expected(_ state: State, _ event: State.Event) -> Step {
        switch (state, event) {
        case (.closed, .reopened): (.closed, .discard)
        case (.closed, _): (.closed, nil)
        case (_, .close): (.closed, .failWaiters)
        case (.open, .ask): (.draining(.request), .drain)
        case (.open, .suspend): (.draining(.suspension), .drain)
        case (.draining(let cause), .ask): (.draining(cause.union(.request)), .drain)
        case (.draining(let cause), .suspend): (.draining(cause.union(.suspension)), .drain)
        case (.draining(.request), .withdraw), (.draining(.suspension), .resume): (.open, .admit)
        case (.draining(let cause), .withdraw): (.draining(cause.subtracting(.request)), .admit)
        case (.draining(let cause), .resume): (.draining(cause.subtracting(.suspension)), .admit)
        case (.draining(let cause), .drained): (.closing(cause), .close)
        case (.closing(let cause), .ask): (.closing(cause.union(.request)), nil)
        case (.closing(let cause), .suspend): (.closing(cause.union(.suspension)), nil)
        case (.closing(let cause), .withdraw): (.closing(cause.subtracting(.request)), nil)
        case (.closing(let cause), .resume): (.closing(cause.subtracting(.suspension)), nil)
        case (.closing([]), .gone): (.reopening([]), .reopen)
        case (.closing(let cause), .gone): (.away(cause), .release)
        case (.closing(let cause), .stuck):
            (cause.contains(.suspension) ? .draining(.suspension) : .open, .admit)
        case (.away(let cause), .ask): (.away(cause.union(.request)), nil)
        case (.away(let cause), .suspend): (.away(cause.union(.suspension)), nil)
        case (.away([.request, .suspension]), .withdraw): (.away(.suspension), .admit)
        case (.away([.request, .suspension]), .resume), (.away(.request), .resume): (.away(.request), .release)
        case (.away(.suspension), .withdraw): (.away(.suspension), .admit)
        case (.away, .withdraw), (.away, .resume): (.reopening([]), .reopen)
        case (.reopening(let cause), .ask): (.reopening(cause.union(.request)), nil)
        case (.reopening(let cause), .suspend): (.reopening(cause.union(.suspension)), nil)
        case (.reopening(let cause), .withdraw): (.reopening(cause.subtracting(.request)), nil)
        case (.reopening(let cause), .resume): (.reopening(cause.subtracting(.suspension)), nil)
        case (.reopening([]), .reopened): (.open, .admit)
        case (.reopening(let cause), .reopened): (.draining(cause), .drain)
        case (.reopening(let cause), .postponed): (.away(cause), .failWaiters)
        case (.reopening, .lost): (.failed, .failWaiters)
        case (.failed, .resume): (.reopening([]), .reopen)
        case (_, .reopened): (state, .discard)
        default: (state, nil)
        }
    }

    @Test("every state answers every event as the rules say")
    func all() {
        for before in Self.states {
            for event in Self.events {
                var state = before
                let action = state.handle(event)
                let (next, expected) = expected(before, event)
                #expect(state == next, "\(before) \(event)")
                #expect(action == expected, "\(before) \(event)")
            }
        }
    }

    @Test("who wants in is let in, waits, opens the connections or is refused, as the state says")
    func admissions() {
        for before in Self.states {
            var state = before
            let admission = state.admit()
            let expected: State.Admission =
                switch before {
                case .open: .enter
                case .draining(let cause): cause.contains(.request) ? .wait : .enter
                case .closing, .reopening: .wait
                case .away(let cause): cause.contains(.request) ? .wait : .reopen
                case .failed, .closed: .refuse
                }
            #expect(admission == expected, "\(before)")
            // The one who opens is the only one.
            if admission == .reopen { #expect(state.admit() == .wait) } else { #expect(state == before) }
        }
    }

    // A request must never be admitted by a late event of another step.
    @Test("while somebody asks, no event but the end of the request opens the gate, except that closing fails")
    func request() {
        for first in Self.events {
            for second in Self.events where first != .withdraw && second != .withdraw {
                var state = State.open
                for event in [.ask, first, second] {
                    _ = state.handle(event)
                    let isExcused = first == .stuck || second == .stuck || first == .lost || second == .lost
                    #expect(state != .open || isExcused, "\(first) \(second)")
                }
            }
        }
    }
}

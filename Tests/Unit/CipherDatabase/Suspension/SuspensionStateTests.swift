import Testing

@testable import CipherDatabase

/// Every state of a suspension against every event.
@Suite struct SuspensionStateTests {
    typealias State = SuspensionState
    typealias Step = (state: State, action: State.Action?)

    private static let rotated = State.Loss.rotated(from: 1, to: 2)
    static let states: [State] = [.running, .suspending, .suspended, .resuming, .lost(.moved), .closed]
    static let events: [State.Event] = [
        .suspend, .released, .resume, .rechecked(nil), .rechecked(rotated), .postponed, .close,
    ]

    /// The result of each state for the events above, in their order.
    private static let table: [[Step]] = [
        [
            (.suspending, .release), (.running, nil), (.running, nil), (.running, nil), (.running, nil),
            (.running, nil), (.closed, .failWaiters),
        ],
        [
            (.suspending, nil), (.suspended, nil), (.resuming, .recheck), (.suspending, .release),
            (.suspending, .release), (.suspending, nil), (.closed, .failWaiters),
        ],
        [
            (.suspended, nil), (.suspended, nil), (.resuming, .recheck), (.suspended, .release),
            (.suspended, .release), (.suspended, nil), (.closed, .failWaiters),
        ],
        [
            (.suspending, .release), (.resuming, nil), (.resuming, .recheck), (.running, .admit),
            (.lost(rotated), .failWaiters), (.resuming, nil), (.closed, .failWaiters),
        ],
        [
            (.lost(.moved), nil), (.lost(.moved), nil), (.resuming, .recheck), (.lost(.moved), nil),
            (.lost(.moved), nil), (.lost(.moved), nil), (.closed, .failWaiters),
        ],
        [
            (.closed, nil), (.closed, nil), (.closed, nil), (.closed, nil), (.closed, nil), (.closed, nil),
            (.closed, nil),
        ],
    ]

    @Test("every state answers every event as the table says")
    func all() {
        for (row, before) in Self.states.enumerated() {
            for (column, event) in Self.events.enumerated() {
                var state = before
                let action = state.handle(event)
                let expected = Self.table[row][column]
                #expect(state == expected.state, "\(before) \(event)")
                #expect(action == expected.action, "\(before) \(event)")
            }
        }
    }

    // A late end of an overtaken step must not let writes in.
    @Test("whatever comes in between, writes are let in only behind a resumption that was compared last")
    func onlyRecheckedRuns() {
        for first in Self.events {
            for second in Self.events {
                for third in Self.events {
                    var state = State.suspended
                    for event in [first, second, third] {
                        let before = state
                        let action = state.handle(event)
                        if state == .running && before != .running {
                            #expect(before == .resuming && event == .rechecked(nil) && action == .admit)
                        }
                    }
                }
            }
        }
    }
}

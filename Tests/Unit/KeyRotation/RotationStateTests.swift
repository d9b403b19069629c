import Testing

@testable import KeyRotation

/// Names instead of files, connections and locks.
private enum Named: RotationResources {
    typealias PendingKeys = String
    typealias Keys = String
    typealias View = String
    typealias Copy = String
    typealias Pause = String
    typealias Switch = String
}

@Suite("The course of a rotation")
struct RotationStateTests {
    private typealias State = RotationState<Named>

    private enum Place: String, CaseIterable {
        case examining, writingKeys, freezing, copying, verifying, catchingUp
        case pausing, carryingRest, proving, withdrawing
        case announcingSwitch, switching, repeating, finishing, undoing, leaving, ended
    }

    private static var events: [State.Event] {
        [
            .examined("mode"), .pendingKeysWritten("keys"), .frozen("view"), .copied("copy"), .verified,
            .caughtUp(left: .zero),
            .caughtUp(left: .seconds(1)), .paused("pause"), .carried, .proved("switch"),
            .withheld(isPatienceOver: false),
            .withheld(isPatienceOver: true), .unleasedHolder, .withdrawn("view 2"), .walLost("keys", "view 2"),
            .notAnnounced, .done, .failed,
        ]
    }

    /// The events that lead to each place.
    private static var ways: [Place: [State.Event]] {
        var ways: [Place: [State.Event]] = [.examining: []]
        let steps: [(Place, Place, State.Event)] = [
            (.examining, .writingKeys, .examined("mode")), (.writingKeys, .freezing, .pendingKeysWritten("keys")),
            (.freezing, .copying, .frozen("view")), (.copying, .verifying, .copied("copy")),
            (.verifying, .catchingUp, .verified), (.catchingUp, .pausing, .caughtUp(left: .zero)),
            (.pausing, .carryingRest, .paused("pause")), (.carryingRest, .proving, .carried),
            (.proving, .withdrawing, .unleasedHolder), (.proving, .announcingSwitch, .proved("switch")),
            (.announcingSwitch, .switching, .done), (.switching, .repeating, .failed), (.switching, .finishing, .done),
            (.finishing, .ended, .done), (.examining, .undoing, .failed), (.undoing, .leaving, .failed),
        ]
        for (from, to, event) in steps { ways[to] = (ways[from] ?? []) + [event] }
        return ways
    }

    private func state(at place: Place, endsLongReads: Bool = false) throws -> State {
        var state = State(endsLongReads: endsLongReads)
        for event in try #require(Self.ways[place]) {
            let isTaken = state.take(event)
            #expect(isTaken)
        }
        return state
    }

    /// A step with its resources, as text.
    private static func text(_ step: State.Step) -> String {
        func text(_ held: State.Held) -> String {
            ([held.hasPendingKeys ? "pending keys" : "nothing"]
                + [held.view, held.copy, held.pause, held.databaseSwitch].compactMap(\.self)).joined(separator: ", ")
        }
        return switch step {
        case .examine: "examine"
        case .writePendingKeys(let pending): "write \(pending)"
        case .freeze(let keys): "freeze \(keys)"
        case .copy(let keys, let view): "copy \(keys), \(view)"
        case .verify(let copy, let view): "verify \(copy), \(view)"
        case .catchUp(let copy, let view): "catch up \(copy), \(view)"
        case .pause(let copy, let view, let insists): "pause \(copy), \(view)\(insists ? ", insisting" : "")"
        case .carryRest(let copy, let view, let pause): "carry rest \(copy), \(view), \(pause)"
        case .prove(let copy, let pause): "prove \(copy), \(pause)"
        case .withdraw(let copy, let view, let pause, let attempt):
            "withdraw \(copy), \(view ?? "-"), \(pause ?? "-"), \(attempt)"
        case .announceSwitch(let copy, let pause, let exchange): "announce switch \(copy), \(pause), \(exchange)"
        case .switchOver(let copy, let pause, let exchange, let isRepeated):
            "switch over \(copy), \(pause), \(exchange)\(isRepeated ? ", again" : "")"
        case .finish(let copy, let pause, let exchange): "finish \(copy), \(pause), \(exchange)"
        case .undo(let held): "undo: \(text(held))"
        case .leave(let held): "leave: \(text(held))"
        case .ended: "ended"
        }
    }

    /// The step of a place, and the next step for each valid outcome; all other outcomes change nothing.
    private typealias Answers = [Place: (step: String, next: [(State.Event, String)])]

    private static var answers: Answers {
        [answersOfCopy, answersOfPause, answersOfSwitch].reduce(into: [:]) { $0.merge($1) { first, _ in first } }
    }

    private static var answersOfCopy: Answers {
        [
            .examining: ("examine", [(.examined("mode"), "write mode"), (.failed, "undo: nothing")]),
            .writingKeys: ("write mode", [(.pendingKeysWritten("keys"), "freeze keys"), (.failed, "undo: nothing")]),
            .freezing: ("freeze keys", [(.frozen("view"), "copy keys, view"), (.failed, "undo: pending keys")]),
            .copying: (
                "copy keys, view", [(.copied("copy"), "verify copy, view"), (.failed, "undo: pending keys, view")]
            ),
            .verifying: (
                "verify copy, view", [(.verified, "catch up copy, view"), (.failed, "undo: pending keys, view, copy")]
            ),
            .catchingUp: (
                "catch up copy, view",
                [
                    (.caughtUp(left: .zero), "pause copy, view"), (.caughtUp(left: .seconds(1)), "catch up copy, view"),
                    (.failed, "undo: pending keys, view, copy"),
                ]
            ),
        ]
    }

    private static var answersOfPause: Answers {
        [
            .pausing: (
                "pause copy, view",
                [
                    (.paused("pause"), "carry rest copy, view, pause"),
                    (.withheld(isPatienceOver: false), "withdraw copy, view, -, 1"),
                    (.withheld(isPatienceOver: true), "undo: pending keys, view, copy"),
                    (.unleasedHolder, "withdraw copy, view, -, 1"), (.failed, "undo: pending keys, view, copy"),
                ]
            ),
            .carryingRest: (
                "carry rest copy, view, pause",
                [
                    (.carried, "prove copy, pause"),
                    (.withheld(isPatienceOver: false), "withdraw copy, view, pause, 1"),
                    (.withheld(isPatienceOver: true), "undo: pending keys, view, copy, pause"),
                    (.unleasedHolder, "withdraw copy, view, pause, 1"),
                    (.failed, "undo: pending keys, view, copy, pause"),
                ]
            ),
            .proving: (
                "prove copy, pause",
                [
                    (.proved("switch"), "announce switch copy, pause, switch"),
                    (.withheld(isPatienceOver: false), "withdraw copy, -, pause, 1"),
                    (.withheld(isPatienceOver: true), "undo: pending keys, copy, pause"),
                    (.unleasedHolder, "withdraw copy, -, pause, 1"), (.failed, "undo: pending keys, copy, pause"),
                ]
            ),
            .withdrawing: (
                "withdraw copy, -, pause, 1",
                [
                    (.withdrawn("view 2"), "catch up copy, view 2"), (.walLost("keys", "view 2"), "copy keys, view 2"),
                    (.failed, "undo: pending keys, copy, pause"),
                ]
            ),
        ]
    }

    private static var answersOfSwitch: Answers {
        [
            .announcingSwitch: (
                "announce switch copy, pause, switch",
                [
                    (.done, "switch over copy, pause, switch"),
                    (.notAnnounced, "undo: pending keys, copy, pause, switch"),
                    (.failed, "leave: pending keys, copy, pause, switch"),
                ]
            ),
            .switching: (
                "switch over copy, pause, switch",
                [(.done, "finish copy, pause, switch"), (.failed, "switch over copy, pause, switch, again")]
            ),
            .repeating: (
                "switch over copy, pause, switch, again",
                [(.done, "finish copy, pause, switch"), (.failed, "leave: pending keys, copy, pause, switch")]
            ),
            .finishing: (
                "finish copy, pause, switch", [(.done, "ended"), (.failed, "leave: pending keys, copy, pause, switch")]
            ),
            .undoing: ("undo: nothing", [(.done, "ended"), (.failed, "leave: nothing")]),
            .leaving: ("leave: nothing", [(.done, "ended"), (.failed, "ended")]),
            .ended: ("ended", []),
        ]
    }

    @Test("every outcome of every step has one answer, and a step has all that it takes", arguments: Place.allCases)
    private func everyEvent(at place: Place) throws {
        let (step, next) = try #require(Self.answers[place])
        for event in Self.events {
            var state = try state(at: place)
            #expect(Self.text(state.step) == step)
            let answer = next.first { "\($0.0)" == "\(event)" }?.1
            let isTaken = state.take(event)
            #expect(isTaken == (answer != nil), "\(event)")
            #expect(Self.text(state.step) == answer ?? step, "\(event)")
        }
    }

    @Test("once the switch may be announced nothing is undone, but where the sidecar says that it is not")
    func onlyForward() throws {
        for place in [.announcingSwitch, .switching, .repeating, .finishing] as [Place] {
            for event in Self.events {
                var state = try state(at: place)
                _ = state.take(event)
                guard case .undo = state.step else { continue }
                guard case .notAnnounced = event else {
                    Issue.record("\(event) at \(place)")
                    continue
                }
            }
        }
    }

    @Test("whatever happens, a rotation ends: after a failure at most three steps follow")
    func failuresEnd() throws {
        for place in Place.allCases {
            var state = try state(at: place)
            var count = 0
            while state.take(.failed) { count += 1 }
            #expect(count <= 3)
            #expect(Self.text(state.step) == "ended")
        }
    }

    @Test("what is left must be short before anybody is asked to pause, unless writers keep it from becoming so")
    func rounds() throws {
        var state = try state(at: .catchingUp)
        func next(_ left: Duration) -> String {
            let isTaken = state.take(.caughtUp(left: left))
            #expect(isTaken)
            return Self.text(state.step)
        }
        for _ in 1..<6 { #expect(next(.milliseconds(50)) == "catch up copy, view") }
        #expect(next(.milliseconds(50)) == "pause copy, view")
        state = try self.state(at: .catchingUp)
        for _ in 1..<100 { #expect(next(.milliseconds(61)) == "catch up copy, view") }
        #expect(next(.milliseconds(5)) == "pause copy, view")
    }

    @Test("when patience is over long reads are ended, where that was chosen, and in the end the rotation is")
    func insists() throws {
        var state = try state(at: .pausing, endsLongReads: true)
        func next(_ event: State.Event) -> String {
            let isTaken = state.take(event)
            #expect(isTaken)
            return Self.text(state.step)
        }
        #expect(next(.withheld(isPatienceOver: false)) == "withdraw copy, view, -, 1")
        _ = next(.withdrawn("view"))
        #expect(next(.caughtUp(left: .zero)) == "pause copy, view")
        #expect(next(.withheld(isPatienceOver: true)) == "withdraw copy, view, -, 2")
        for attempt in 3...5 {
            _ = next(.withdrawn("view"))
            #expect(next(.caughtUp(left: .zero)) == "pause copy, view, insisting")
            let last = attempt == 5
            #expect(
                next(.withheld(isPatienceOver: true))
                    == (last ? "undo: pending keys, view, copy" : "withdraw copy, view, -, \(attempt)"))
        }
        #expect(state.attempts == 5)
    }

    @Test("a connection that no request reaches is waited for twice, and then ends the rotation")
    func unleasedHolders() throws {
        var state = try state(at: .proving)
        func next(_ event: State.Event) -> String {
            let isTaken = state.take(event)
            #expect(isTaken)
            return Self.text(state.step)
        }
        for attempt in 1...2 {
            #expect(next(.unleasedHolder) == "withdraw copy, -, pause, \(attempt)")
            for event in [.withdrawn("view"), .caughtUp(left: .zero), .paused("pause"), .carried] as [State.Event] {
                _ = next(event)
            }
        }
        #expect(next(.unleasedHolder) == "undo: pending keys, copy, pause")
    }
}

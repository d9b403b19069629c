import Testing

@testable import KeyRotation

@Suite("The course of a rotation")
struct RotationStateTests {
    private static let events: [RotationState.Event] = [
        .start, .done, .caughtUp(left: .zero), .caughtUp(left: .seconds(1)), .withheld(isPatienceOver: false),
        .withheld(isPatienceOver: true), .foreignHolder, .logLost, .notAnnounced, .failed, .cancelled,
    ]

    /// What leads to each phase.
    private static let ways: [RotationState.Phase: [RotationState.Event]] = {
        var ways: [RotationState.Phase: [RotationState.Event]] = [.idle: []]
        let steps: [(RotationState.Phase, RotationState.Phase, RotationState.Event)] = [
            (.idle, .examining, .start), (.examining, .announcing, .done), (.announcing, .freezing, .done),
            (.freezing, .copying, .done), (.copying, .verifying, .done), (.verifying, .catchingUp, .done),
            (.catchingUp, .asking, .caughtUp(left: .zero)), (.asking, .carryingRest, .done),
            (.carryingRest, .proving, .done), (.proving, .withdrawing, .foreignHolder),
            (.proving, .announcingSwitch, .done),
            (.announcingSwitch, .switching, .done), (.switching, .finishing, .failed), (.switching, .lettingGo, .done),
            (.lettingGo, .ended, .done),
            (.examining, .undoing, .failed),
        ]
        for (from, to, event) in steps { ways[to] = (ways[from] ?? []) + [event] }
        return ways
    }()

    private func state(in phase: RotationState.Phase, endsLongReads: Bool = false) throws -> RotationState {
        var state = RotationState(endsLongReads: endsLongReads)
        for event in try #require(Self.ways[phase]) { _ = state.take(event) }
        #expect(state.phase == phase)
        return state
    }

    /// What every phase answers to every event that belongs to it; all others change nothing.
    private static let answers:
        [RotationState.Phase: [(RotationState.Event, RotationState.Action?, RotationState.Phase)]] = [
            .idle: [(.start, .examine, .examining)],
            .examining: [(.done, .announce, .announcing), (.failed, .undo, .undoing), (.cancelled, .undo, .undoing)],
            .announcing: [(.done, .freeze, .freezing), (.failed, .undo, .undoing), (.cancelled, .undo, .undoing)],
            .freezing: [(.done, .copy, .copying), (.failed, .undo, .undoing), (.cancelled, .undo, .undoing)],
            .copying: [(.done, .verify, .verifying), (.failed, .undo, .undoing), (.cancelled, .undo, .undoing)],
            .verifying: [(.done, .catchUp, .catchingUp), (.failed, .undo, .undoing), (.cancelled, .undo, .undoing)],
            .catchingUp: [
                (.caughtUp(left: .zero), .ask(insists: false), .asking),
                (.caughtUp(left: .seconds(1)), .catchUp, .catchingUp), (.failed, .undo, .undoing),
                (.cancelled, .undo, .undoing),
            ],
            .asking: [
                (.done, .carryRest, .carryingRest),
                (.withheld(isPatienceOver: false), .withdraw(attempt: 1), .withdrawing),
                (.withheld(isPatienceOver: true), .undo, .undoing),
                (.foreignHolder, .withdraw(attempt: 1), .withdrawing), (.failed, .undo, .undoing),
                (.cancelled, .undo, .undoing),
            ],
            .carryingRest: [
                (.done, .prove, .proving), (.withheld(isPatienceOver: false), .withdraw(attempt: 1), .withdrawing),
                (.withheld(isPatienceOver: true), .undo, .undoing),
                (.foreignHolder, .withdraw(attempt: 1), .withdrawing),
                (.failed, .undo, .undoing), (.cancelled, .undo, .undoing),
            ],
            .proving: [
                (.done, .announceSwitch, .announcingSwitch),
                (.withheld(isPatienceOver: false), .withdraw(attempt: 1), .withdrawing),
                (.withheld(isPatienceOver: true), .undo, .undoing),
                (.foreignHolder, .withdraw(attempt: 1), .withdrawing),
                (.failed, .undo, .undoing), (.cancelled, .undo, .undoing),
            ],
            .withdrawing: [
                (.done, .catchUp, .catchingUp), (.logLost, .copy, .copying), (.failed, .undo, .undoing),
                (.cancelled, .undo, .undoing),
            ],
            .announcingSwitch: [
                (.done, .switchOver, .switching), (.notAnnounced, .undo, .undoing), (.failed, .leave, .ended),
            ],
            .switching: [(.done, .letGo, .lettingGo), (.failed, .switchOver, .finishing)],
            .finishing: [(.done, .letGo, .lettingGo), (.failed, .leave, .ended)],
            .lettingGo: [(.done, nil, .ended), (.failed, .leave, .ended)],
            .undoing: [(.done, nil, .ended), (.failed, .leave, .ended)],
            .ended: [],
        ]

    @Test("every event in every phase has one answer", arguments: RotationState.Phase.allCases)
    func everyEvent(in phase: RotationState.Phase) throws {
        let answers = try #require(Self.answers[phase])
        for event in Self.events {
            var state = try state(in: phase)
            let action = state.take(event)
            let answer = answers.first { $0.0 == event }
            #expect(action == answer?.1, "\(event)")
            #expect(state.phase == answer?.2 ?? phase, "\(event)")
        }
    }

    @Test("once the switch may be announced nothing is undone, and nothing is cancelled")
    func onlyForward() throws {
        for phase in [.announcingSwitch, .switching, .finishing, .lettingGo] as [RotationState.Phase] {
            let state = try state(in: phase)
            #expect(!state.canBeUndone)
            for event in Self.events where event != .notAnnounced {
                var state = state
                let action = state.take(event)
                #expect(action != .undo, "\(event) in \(phase)")
                if event == .cancelled { #expect(action == nil && state.phase == phase) }
            }
        }
    }

    @Test("a failure says on which side of the commit point it leaves the store")
    func sides() throws {
        for phase in RotationState.Phase.allCases where ![.idle, .ended].contains(phase) {
            var state = try state(in: phase)
            while state.take(.failed) != nil {}
            let side: CommitSide =
                switch phase {
                case .announcingSwitch: .unknown
                case .switching, .finishing, .lettingGo: .announced
                default: .before
                }
            #expect(state.side == side, "\(phase)")
        }
        var state = try state(in: .announcingSwitch)
        #expect(state.take(.notAnnounced) == .undo && state.side == .before)
    }

    @Test("whatever happens, a rotation ends: after a failure at most three actions follow")
    func failuresEnd() throws {
        for phase in RotationState.Phase.allCases where phase != .idle {
            var state = try state(in: phase)
            var count = 0
            while state.take(.failed) != nil { count += 1 }
            #expect(count <= 3)
            #expect(state.phase == .ended)
        }
    }

    @Test("what is left must be short before anybody is asked to pause, unless writers keep it from becoming so")
    func rounds() throws {
        var state = try state(in: .catchingUp)
        for _ in 1..<6 { #expect(state.take(.caughtUp(left: .milliseconds(50))) == .catchUp) }
        #expect(state.take(.caughtUp(left: .milliseconds(50))) == .ask(insists: false))
        state = try self.state(in: .catchingUp)
        for _ in 1..<100 { #expect(state.take(.caughtUp(left: .milliseconds(61))) == .catchUp) }
        #expect(state.take(.caughtUp(left: .milliseconds(5))) == .ask(insists: false))
    }

    @Test("when patience is over long reads are ended, where that was chosen, and in the end the rotation is")
    func insists() throws {
        var state = try state(in: .asking, endsLongReads: true)
        #expect(state.take(.withheld(isPatienceOver: false)) == .withdraw(attempt: 1))
        _ = state.take(.done)
        #expect(state.take(.caughtUp(left: .zero)) == .ask(insists: false))
        #expect(state.take(.withheld(isPatienceOver: true)) == .withdraw(attempt: 2))
        for attempt in 3...5 {
            _ = state.take(.done)
            #expect(state.take(.caughtUp(left: .zero)) == .ask(insists: true))
            let last = attempt == 5
            #expect(state.take(.withheld(isPatienceOver: true)) == (last ? .undo : .withdraw(attempt: attempt)))
        }
        #expect(state.attempts == 5)
    }

    @Test("a connection that no request reaches is waited for twice, and then ends the rotation")
    func foreignHolders() throws {
        var state = try state(in: .proving)
        for attempt in 1...2 {
            #expect(state.take(.foreignHolder) == .withdraw(attempt: attempt))
            for event in [.done, .caughtUp(left: .zero), .done, .done] as [RotationState.Event] {
                _ = state.take(event)
            }
        }
        #expect(state.take(.foreignHolder) == .undo)
    }
}

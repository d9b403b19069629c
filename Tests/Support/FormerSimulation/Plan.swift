import TestKit

/// What happens in one schedule of the simulation: it follows from the number of the schedule alone, and each of its steps
/// means the same when others are left out.
package struct Plan: Sendable {
    package enum Kind: String, Sendable, CaseIterable {
        /// Stores that commit, exchange, merge and pull in any order.
        case convergence
        /// The same with checkpoints, stores that join later, and stores that are retired and rejoin.
        case checkpoints
    }

    /// Which rules the stores merge by.
    package enum Rules: String, Sendable {
        case automatic
        /// Counters, renaming and a resolver, the same everywhere.
        case shared
        /// Other rules in each store, of which some decide by chance.
        case different
    }

    /// What goes wrong in a step.
    package enum Trouble: Sendable {
        case none
        /// The process is killed before this commit of a transaction, counted from 0.
        case killedAtCommit(Int)
        /// The process is killed at this call of a remote, counted from 0, before the call or after it.
        case killedAtCall(Int, isDone: Bool)
        /// The disk has no more than this many free pages.
        case full(pages: Int)
        /// Calls of the remote fail, are lost, done twice, done in part; listings are late, short and repeated; objects
        /// are missing, damaged or in another order.
        case remote
    }

    package enum Action: Sendable {
        /// One that is `plain` has no row of the journal, and can be reverted.
        case commit([String], isPlain: Bool, isUndone: Bool)
        case count(Int)
        /// A write outside of commits, and the commit that takes it.
        case foreignWrite([String])
        /// Reverts one of the plain commits, by any store.
        case revert(Int)
        case push(Int)
        case fetch(Int)
        case sync(Int)
        case mergeAll
        case pull
        case checkpoint(Int)
        case join
        case retire(Int, at: Int)
        /// The program ends and starts again.
        case reopen
        /// Everybody exchanges everything.
        case settle
    }

    package struct Step: Sendable {
        package let number: Int
        /// Which store acts; the remainder by the number of stores.
        let place: Int
        let action: Action
        let trouble: Trouble
        /// How far the clock of the store goes on; it may go back.
        let seconds: Double
        let seed: Int
    }

    package let number: Int
    package let kind: Kind
    let rules: Rules
    let storeCount: Int
    /// The remotes of each store: one, or two that share a store at least.
    let remotes: [[Int]]
    let schema: SimulatedSchema
    let hasCommonStart: Bool
    package let steps: [Step]

    var remoteCount: Int { (remotes.joined().max() ?? 0) + 1 }

    package init(_ number: Int, kind: Kind? = nil) {
        self.number = number
        var dice = Dice(number, 0)
        self.kind = kind ?? (number % 2 == 0 ? .convergence : .checkpoints)
        rules = [.automatic, .automatic, .shared, .shared, .different][dice(0...4)]
        schema = SimulatedSchema.all[max(0, dice(-2...SimulatedSchema.all.count - 1))]
        storeCount = [2, 2, 2, 2, 3, 3, 3, 4][dice(0...7)]
        let hasTwo = dice(0...2) == 0
        let hasCheckpoints = self.kind == .checkpoints
        remotes = (0..<storeCount + 3).map { place in
            // The first store joins the two. A checkpoint waits for the stores of its remote, so there all have both.
            hasTwo && (place == 0 || hasCheckpoints) ? [0, 1] : hasTwo ? [[0], [1], [0, 1]][dice(0...2)] : [0]
        }
        hasCommonStart = self.kind == .checkpoints || dice(0...1) == 0
        let hasTroubles = dice(0...3) != 0
        let count = dice(8...30)
        let (kind, schema) = (self.kind, schema)
        steps = (0..<count).map { Self.step($0, of: number, kind, schema, hasTroubles) }
    }

    private static func step(
        _ step: Int, of number: Int, _ kind: Kind, _ schema: SimulatedSchema, _ hasTroubles: Bool
    ) -> Step {
        var dice = Dice(number, step + 1)
        let action: Action
        switch kind {
        case .convergence: action = convergenceAction(&dice, schema)
        case .checkpoints: action = checkpointAction(&dice, schema, step)
        }
        var trouble = Trouble.none
        if hasTroubles && dice(0...3) == 0 {
            switch dice(0...7) {
            case 0, 1: trouble = .killedAtCommit(dice(0...4))
            case 2, 3: trouble = .killedAtCall(dice(0...8), isDone: dice(0...1) == 0)
            case 4: trouble = .full(pages: dice(0...3))
            default: trouble = .remote
            }
        }
        let seconds = dice(0...30) == 0 ? Double(dice(-100_000...100_000)) : Double(dice(0...3))
        return Step(
            number: step, place: dice(0...59), action: action, trouble: trouble, seconds: seconds,
            seed: dice(0...Int(Int32.max)))
    }

    private static func commit(_ dice: inout Dice, _ schema: SimulatedSchema) -> Action {
        if dice(0...9) == 0 { return .count(dice(-1...3)) }
        let statements = (0..<dice(1...3)).map { _ in schema.statement(&dice) }
        let kind = dice(0...11)
        if kind == 0 { return .foreignWrite(statements) }
        return .commit(statements, isPlain: kind < 4, isUndone: kind == 4)
    }

    private static func convergenceAction(_ dice: inout Dice, _ schema: SimulatedSchema) -> Action {
        switch dice(0...39) {
        case 0..<18: commit(&dice, schema)
        case 18: .revert(dice(0...9))
        case 19: .reopen
        case 20..<24: .push(dice(0...1))
        case 24..<28: .fetch(dice(0...1))
        case 28..<31: .mergeAll
        case 31..<35: .pull
        default: .sync(dice(0...1))
        }
    }

    private static func checkpointAction(_ dice: inout Dice, _ schema: SimulatedSchema, _ step: Int) -> Action {
        switch dice(0...39) {
        case 0..<14: commit(&dice, schema)
        case 14: .revert(dice(0...9))
        case 15: .reopen
        case 16..<18: .push(dice(0...1))
        case 18..<20: .fetch(dice(0...1))
        case 20: .mergeAll
        case 21: .pull
        case 22..<27: .checkpoint(dice(0...1))
        case 27, 28: .join
        case 29, 30: .retire(dice(0...59), at: dice(0...1))
        case 31..<34: .settle
        default: .sync(dice(0...1))
        }
    }
}

extension Plan: CustomStringConvertible {
    package var description: String {
        "schedule \(number): \(kind.rawValue), rules \(rules.rawValue), tables p \(schema.children.joined(separator: " ")), "
            + "\(storeCount) stores, remotes of each and of those that join: \(remotes), "
            + (hasCommonStart ? "which begin with the same rows" : "which begin empty")
    }
}

/// Random numbers of one step.
struct Dice {
    private var numbers: RandomNumbers

    init(_ seed: Int, _ index: Int) {
        numbers = Seed(value: UInt64(bitPattern: Int64(seed)) &* 0xd134_2543_de82_ef95).numbers(index)
    }

    mutating func callAsFunction(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &numbers) }
    mutating func shuffled<T>(_ items: [T]) -> [T] { items.shuffled(using: &numbers) }
}

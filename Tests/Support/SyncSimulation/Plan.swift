import TestKit

/// The steps of one schedule of the simulation. They follow from the number of the schedule alone, and each of them means
/// the same when others are left out.
package struct Plan: Sendable {
    /// A fault during a step.
    package enum Trouble: Sendable {
        case none
        /// The process is killed before this commit of a transaction, counted from 0.
        case killedAtCommit(Int)
        /// The process is killed at this call of a remote, counted from 0, before the call or after it.
        case killedAtCall(Int, isDone: Bool)
        /// The disk has no more than this many free pages.
        case full(pages: Int)
        /// Calls of remotes fail, lose their answers, are done twice or not; objects are missing, damaged, truncated or
        /// swapped; listings are old, incomplete, repeated and have foreign names.
        case remote
    }

    package enum Action: Sendable {
        /// It has a row of the journal, and sets a register to the number of the step.
        case commit([Statement], register: Int?, isUndone: Bool)
        /// A commit without a row of the journal, which any store may revert.
        case plainCommit([Statement])
        case count(Int)
        case revert(Int)
        case push(Int)
        case fetch(Int)
        case sync(Int)
        case pull
        /// Puts a snapshot and deletes the objects that it covers.
        case compact(Int)
        /// Forgets the bodies of commits, and tombstones.
        case forget(tombstones: Bool)
        /// The program brings its tables to the next version.
        case migrate
        /// The program ends and starts again.
        case reopen
        /// Everybody exchanges everything.
        case settle
        /// A backup of the store, and the return to it.
        case save
        case restore
        /// A copy of the files of the store is used as another store.
        case copy
        /// Another device joins by an invitation.
        case join(Int)
        /// The first store removes the last member.
        case remove
        /// A remote is saved, set back, emptied, loses some of its objects, or gets those of another one.
        case saveRemote(Int)
        case rewindRemote(Int)
        case emptyRemote(Int)
        case loseObjects(Int)
        case copyRemote(Int)
    }

    package struct Step: Sendable {
        package let number: Int
        /// The store that acts; the remainder by the number of stores.
        let place: Int
        let action: Action
        let trouble: Trouble
        /// The time that passes for the store, in milliseconds; negative if its clock is set back.
        let milliseconds: Int
        let seed: Int
    }

    package let number: Int
    let schema: SimulatedSchema
    let storeCount: Int
    /// The remotes of each store; the first store has all.
    let remotes: [[Int]]
    /// The most rows of one transaction of a join.
    let sliceRows: [Int]
    /// The version of the tables of each store at the beginning.
    let versions: [Int]
    /// Whether clocks are wrong by more than is adopted. Then nobody forgets tombstones (FINDINGS.md).
    let hasFarClocks: Bool
    package let steps: [Step]

    var remoteCount: Int { (remotes.joined().max() ?? 0) + 1 }
    static let mostStores = 6

    package init(_ number: Int) {
        self.number = number
        var dice = Dice(number, 0)
        schema = SimulatedSchema.all[max(0, dice(-2...SimulatedSchema.all.count - 1))]
        storeCount = [2, 2, 2, 3, 3, 3, 4, 5][dice(0...7)]
        let remoteCount = [1, 1, 1, 2, 2, 3][dice(0...5)]
        remotes = (0..<Self.mostStores).map { place in
            let own = (0..<remoteCount).filter { _ in place == 0 || dice(0...9) < 6 }
            return own.isEmpty ? [dice(0...remoteCount - 1)] : own
        }
        let hasSlices = dice(0...2) == 0
        sliceRows = (0..<Self.mostStores).map { _ in hasSlices ? [1, 1, 2, 5, 50_000][dice(0...4)] : 50_000 }
        let isMixed = dice(0...4) == 0
        let last = SimulatedSchema.lastVersion
        versions = (0..<Self.mostStores).map { _ in isMixed ? dice(0...last) : last }
        hasFarClocks = dice(0...4) == 0
        let (hasTroubles, hasMishaps, count) = (dice(0...3) != 0, dice(0...2) == 0, dice(8...36))
        let maker = StepMaker(
            number: number, schema: schema, isMixed: isMixed, hasTroubles: hasTroubles, hasMishaps: hasMishaps,
            hasFarClocks: hasFarClocks)
        steps = (0..<count).map { maker.step($0) }
    }
}

/// Makes the steps of a schedule.
private struct StepMaker {
    let number: Int
    let schema: SimulatedSchema
    let isMixed: Bool
    let hasTroubles: Bool
    /// Whether stores and remotes are set back, copied and removed.
    let hasMishaps: Bool
    let hasFarClocks: Bool

    func step(_ step: Int) -> Plan.Step {
        var dice = Dice(number, step + 1)
        let action = action(&dice)
        var trouble = Plan.Trouble.none
        if hasTroubles && dice(0...3) == 0 {
            switch dice(0...7) {
            case 0, 1: trouble = .killedAtCommit(dice(0...5))
            case 2, 3: trouble = .killedAtCall(dice(0...8), isDone: dice(0...1) == 0)
            case 4: trouble = .full(pages: dice(0...3))
            default: trouble = .remote
            }
        }
        let milliseconds: Int
        switch dice(0...29) {
        case 0: milliseconds = dice(-100_000...100_000)
        case 1 where hasFarClocks: milliseconds = dice(-400_000_000...400_000_000)
        default: milliseconds = dice(0...3)
        }
        return Plan.Step(
            number: step, place: dice(0...59), action: action, trouble: trouble, milliseconds: milliseconds,
            seed: dice(0...Int(Int32.max)))
    }

    private func commit(_ dice: inout Dice) -> Plan.Action {
        if dice(0...9) == 0 { return .count(dice(-1...3)) }
        let statements = (0..<dice(1...3)).map { _ in schema.statement(&dice) }
        switch dice(0...11) {
        case 0...2: return .plainCommit(statements)
        case let kind:
            return .commit(statements, register: dice(0...1) == 0 ? dice(1...3) : nil, isUndone: kind == 3)
        }
    }

    private func action(_ dice: inout Dice) -> Plan.Action {
        let remote = dice(0...2)
        switch dice(0...59) {
        case 0..<24: return commit(&dice)
        case 24, 25: return .revert(dice(0...9))
        case 26: return .reopen
        case 27..<31: return .push(remote)
        case 31..<35: return .fetch(remote)
        case 35..<38: return .pull
        case 38..<48: return .sync(remote)
        case 48: return .settle
        case 49, 50: return .compact(remote)
        case 51: return .forget(tombstones: !hasFarClocks && dice(0...1) == 0)
        case 52: return isMixed ? .migrate : .sync(remote)
        case 53: return dice(0...2) == 0 ? .join(remote) : .sync(remote)
        default: return hasMishaps ? mishap(&dice, remote) : commit(&dice)
        }
    }

    private func mishap(_ dice: inout Dice, _ remote: Int) -> Plan.Action {
        switch dice(0...13) {
        case 0, 1, 2: .save
        case 3, 4: .restore
        case 5: .copy
        case 6: .remove
        case 7, 8: .saveRemote(remote)
        case 9: .rewindRemote(remote)
        case 10: .emptyRemote(remote)
        case 11, 12: .loseObjects(remote)
        default: .copyRemote(remote)
        }
    }
}

extension Plan: CustomStringConvertible {
    package var description: String {
        "schedule \(number): tables p \(schema.children.joined(separator: " ")), \(storeCount) stores, remotes of each and "
            + "of those that join: \(remotes), slices \(sliceRows), versions \(versions), far clocks \(hasFarClocks)"
    }
}

/// Random numbers of one step.
struct Dice {
    private var numbers: RandomNumbers

    init(_ seed: Int, _ index: Int) {
        numbers = Seed(value: UInt64(bitPattern: Int64(seed)) &* 0xd134_2543_de82_ef95).numbers(index)
    }

    mutating func callAsFunction(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &numbers) }
}

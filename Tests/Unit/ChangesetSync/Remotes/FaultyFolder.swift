import Foundation
import StorePlatform
import Synchronization

@testable import ChangesetSync

/// The calls of a directory remote on a real folder, which fail or end where a test says, and what a power failure would
/// take from it.
final class FaultyDisk: Sendable {
    enum Step: String, Sendable {
        case open, make, names, status, read, create, syncFile, link, renameExclusively, rename, remove, syncFolder
    }

    private struct State {
        var calls = 0
        /// The call at which the process is killed: none of its effects, or a part of them, and no call after it.
        var killedAt: Int?
        var isDead = false
        /// The call at which an error begins, and whether it ends with it.
        var fails: (at: Int, number: Int32, forever: Bool)?
        var refused: [Step: Int32] = [:]
        var before: (step: Step, name: String?, action: @Sendable () -> Void)?
        /// Names that are on no disk yet.
        var unsynced: Set<String> = []
        var steps: [String] = []
    }

    private let state = Mutex(State())
    let path: String

    init(_ path: String) { self.path = path }

    var root: any RemoteFolder { FaultyFolder(folder: try! SystemFolder(opening: path), disk: self) }

    /// A new process: it counts from 1, and what is on no disk yet stays so.
    func restart(killedAt: Int? = nil) {
        state.withLock {
            ($0.calls, $0.killedAt, $0.isDead, $0.fails, $0.steps) = (0, killedAt, false, nil, [])
            ($0.refused, $0.before) = ([:], nil)
        }
    }

    func fail(at call: Int, with number: Int32, forever: Bool) {
        state.withLock { $0.fails = (call, number, forever) }
    }

    func refuse(_ steps: [Step], with number: Int32) {
        state.withLock { state in for step in steps { state.refused[step] = number } }
    }

    /// Runs a function before the next call of one kind, once.
    func before(_ step: Step, of name: String? = nil, do action: @escaping @Sendable () -> Void) {
        state.withLock { $0.before = (step, name, action) }
    }

    var isDead: Bool { state.withLock(\.isDead) }
    var calls: Int { state.withLock(\.calls) }
    var steps: [String] { state.withLock(\.steps) }
    var hasFailed: Bool { state.withLock { state in state.fails.map { state.calls >= $0.at } ?? false } }

    /// Removes every name that was not synced; of the logs only where `withLogs`.
    func cutPower(withLogs: Bool = true) {
        let lost = state.withLock { state in
            defer { state.unsynced = [] }
            return state.unsynced
        }
        for name in lost where withLogs || !name.contains("/log/") { try? FileManager.default.removeItem(atPath: name) }
    }

    func markUnsynced(_ path: String) { state.withLock { _ = $0.unsynced.insert(path) } }

    func markSynced(folder: String) {
        state.withLock { state in
            state.unsynced = state.unsynced.filter { Files.directory(of: $0) != folder }
        }
    }

    /// Counts a call; throws what it fails with.
    ///
    /// - Returns: Whether the process dies in this call, after a part of its effects.
    func enter(_ step: Step, _ path: String) throws(SystemError) -> Bool {
        let action = state.withLock { state -> (@Sendable () -> Void)? in
            guard let before = state.before, before.step == step, before.name.map(path.hasSuffix) ?? true else {
                return nil
            }
            state.before = nil
            return before.action
        }
        action?()
        let (failure, dies) = state.withLock { state -> (Int32?, Bool) in
            if state.isDead { return (Self.dead, false) }
            state.calls += 1
            state.steps.append("\(step.rawValue) \(path)")
            if state.killedAt == state.calls {
                state.isDead = true
                return (nil, true)
            }
            if let fails = state.fails, state.calls == fails.at || (fails.forever && state.calls > fails.at) {
                return (fails.number, false)
            }
            return (state.refused[step], false)
        }
        if let failure { throw SystemError(call: step.rawValue, path: path, errorNumber: failure) }
        return dies
    }

    static let dead = EOWNERDEAD
    static func died(_ step: Step) -> SystemError { SystemError(call: step.rawValue, path: nil, errorNumber: dead) }
}

private struct FaultyFolder: RemoteFolder {
    let folder: any RemoteFolder
    let disk: FaultyDisk

    var path: String { folder.path }

    private func enter(_ step: FaultyDisk.Step, _ name: String = "") throws(SystemError) {
        if try disk.enter(step, path + "/" + name) { throw FaultyDisk.died(step) }
    }

    private static func inner(_ other: any RemoteFolder) -> any RemoteFolder { (other as! FaultyFolder).folder }

    func identity() throws(SystemError) -> FileIdentity { try folder.identity() }

    func folder(_ name: String) throws(SystemError) -> (any RemoteFolder)? {
        try enter(.open, name)
        guard let found = try folder.folder(name) else { return nil }
        return FaultyFolder(folder: found, disk: disk)
    }

    func makeFolder(_ name: String) throws(SystemError) {
        let dies = try disk.enter(.make, path + "/" + name)
        let isNew = try folder.status(of: name) == nil
        try folder.makeFolder(name)
        if isNew { disk.markUnsynced(path + "/" + name) }
        if dies { throw FaultyDisk.died(.make) }
    }

    func names(limit: Int) throws(SystemError) -> [String] {
        try enter(.names)
        return try folder.names(limit: limit)
    }

    func status(of name: String) throws(SystemError) -> (kind: FileKind, modified: Duration)? {
        try enter(.status, name)
        return try folder.status(of: name)
    }

    func read(_ name: String, limitBytes: Int) throws(SystemError) -> [UInt8]? {
        try enter(.read, name)
        return try folder.read(name, limitBytes: limitBytes)
    }

    func createFile(_ name: String, _ bytes: [UInt8]) throws(SystemError) {
        // Killed in the middle: half of the bytes are there.
        let dies = try disk.enter(.create, path + "/" + name)
        // Without a sync, of which there are thousands: what a power failure takes is counted here.
        let file = try FileDescriptor(
            opening: path + "/" + name, .writeOnly, creating: .always(permissions: 0o600))
        try file.write(dies ? Array(bytes.prefix(bytes.count / 2)) : bytes)
        if dies { throw FaultyDisk.died(.create) }
        disk.markUnsynced(path + "/" + name)
    }

    func synchronize(file name: String) throws(SystemError) {
        try enter(.syncFile, name)
    }

    func link(_ name: String, to other: any RemoteFolder, _ newName: String) throws(SystemError) {
        let dies = try disk.enter(.link, other.path + "/" + newName)
        try folder.link(name, to: Self.inner(other), newName)
        disk.markUnsynced(other.path + "/" + newName)
        if dies { throw FaultyDisk.died(.link) }
    }

    func renameExclusively(_ name: String, to other: any RemoteFolder, _ newName: String) throws(SystemError) {
        let dies = try disk.enter(.renameExclusively, other.path + "/" + newName)
        try folder.renameExclusively(name, to: Self.inner(other), newName)
        disk.markUnsynced(other.path + "/" + newName)
        if dies { throw FaultyDisk.died(.renameExclusively) }
    }

    func rename(_ name: String, to other: any RemoteFolder, _ newName: String) throws(SystemError) {
        let dies = try disk.enter(.rename, other.path + "/" + newName)
        try folder.rename(name, to: Self.inner(other), newName)
        disk.markUnsynced(other.path + "/" + newName)
        if dies { throw FaultyDisk.died(.rename) }
    }

    func remove(_ name: String) throws(SystemError) {
        try enter(.remove, name)
        try folder.remove(name)
    }

    func synchronize() throws(SystemError) {
        try enter(.syncFolder)
        disk.markSynced(folder: path)
    }
}

import CipherStore
import Foundation
import KeyCustody
import StorePlatform

/// The directory in which a database is made before it gets its name.
///
/// It stands beside the target, as `<name>.importing-<pid>-<8 hex digits>`, so that publishing is a link within one
/// filesystem. It is this process's own as long as its lock is held; the directory of an import that died is removed
/// by the next one, and with it what a cut publication left at the target: files that are the very same.
final class ImportStaging {
    /// What is being done, as it stands in the directory's name.
    enum Purpose: String, CaseIterable {
        case importing
        case adopting
        case exporting
    }

    let directory: String
    private let targetPath: String
    private let lock: HeldLock

    /// The store while it is being made.
    var storePath: String { directory + "/" + Files.name(of: targetPath) }

    private static let lockName = "import.lock"

    /// - Throws: `SystemError`.
    init(for target: ImportTarget, _ purpose: Purpose = .importing) throws {
        targetPath = target.path
        let digits = String(UInt32.random(in: 0x1000_0000 ... .max), radix: 16)
        directory = "\(target.path).\(purpose.rawValue)-\(ProcessInspector.currentProcess)-\(digits)"
        do {
            try FileManager.default.createDirectory(
                atPath: directory, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
        } catch {
            throw Self.systemError("mkdir", directory, error)
        }
        lock = try LockFile(path: directory + "/" + Self.lockName, likeFile: nil).lock(.admin, .exclusive)
    }

    /// What Foundation found, as the system's own error.
    private static func systemError(_ call: String, _ path: String, _ error: any Error) -> SystemError {
        let number = ((error as NSError).userInfo[NSUnderlyingErrorKey] as? NSError)?.code
        return SystemError(call: call, path: path, errorNumber: number.map { Int32(clamping: $0) } ?? EACCES)
    }

    // MARK: Publishing

    /// Gives the finished store its name: database, sidecar, second copy, each by a link that replaces nothing.
    ///
    /// Without its sidecar a database cannot be opened or changed by anybody. So a publication that is cut leaves either
    /// nothing that matters or the whole store.
    func publish(to target: ImportTarget) throws {
        let staged = StorePaths(storePath)
        let final = StorePaths(target.path)
        try FileDescriptor(opening: staged.database, .readOnly).synchronize()
        let opening = try target.lockOpening(likeFile: staged.database)
        defer { opening.release() }
        try target.requireFree()
        var published: [String] = []
        do {
            for (from, to) in [
                (staged.database, final.database), (staged.sidecar, final.sidecar),
                (staged.sidecarBackup, final.sidecarBackup),
            ] {
                try Self.link(from, to)
                published.append(to)
                try Files.synchronize(directory: Files.directory(of: target.path))
            }
        } catch {
            // The database last: without its sidecar it is of no use, and the next import removes it.
            for path in published.reversed() { try? Files.remove(path) }
            let left = published.filter { Files.exists($0) }
            if left.isEmpty { throw error }
            let report = ErrorReport(error)
            throw CommandFailure(
                report.exitCode, "importInterrupted", what: "\"\(target.path)\" was not imported.", why: report.message,
                hint:
                    "These files could not be removed again: \(left.map { "\"\($0)\"" }.joined(separator: ", ")). Remove "
                    + "them, then import again; the plain database is as it was.")
        }
    }

    /// Takes the published database its name in the directory. Until then nobody opens it: it has two.
    ///
    /// - Throws: ``CommandFailure`` that says what is left to do: the store is published.
    func removeSecondName(of target: ImportTarget) throws {
        for _ in 0..<2 where (try? Files.remove(storePath)) != nil { return }
        throw CommandFailure(
            .inputOutput, "importInterrupted",
            what: "\"\(target.path)\" was imported and verified, but its file still has a second name.",
            why: "\"\(storePath)\" could not be removed, and a store with two names is opened under neither.",
            hint: "Remove the directory \"\(directory)\"; then the store is complete: do not import it again.")
    }

    /// Gives a file a name that must be free.
    static func link(_ path: String, _ newPath: String) throws {
        do {
            try FileManager.default.linkItem(atPath: path, toPath: newPath)
        } catch {
            if Files.exists(newPath) { throw systemError("link", newPath, error) }
            // A filesystem without hard links.
            do {
                try FileManager.default.moveItem(atPath: path, toPath: newPath)
            } catch {
                throw systemError("rename", newPath, error)
            }
        }
    }

    /// Removes the directory with all that was made in it.
    func remove() {
        Self.remove(directory)
        lock.release()
    }

    private static func remove(_ directory: String) {
        // Only files: nothing of ours makes a directory in it. The lock goes last, since it says whose this is.
        for name in (try? Files.names(inDirectory: directory)) ?? [] where name != lockName {
            removeTwice("\(directory)/\(name)")
        }
        removeTwice("\(directory)/\(lockName)")
        try? FileManager.default.removeItemIfEmpty(directory)
    }

    /// A disk may refuse once what it does the next time.
    private static func removeTwice(_ path: String) {
        for _ in 0..<2 where (try? Files.remove(path)) != nil { return }
    }

    // MARK: Imports that died

    /// Removes what runs of the same kind left for this target that were killed.
    ///
    /// - Returns: The directories that were removed.
    static func removeAbandoned(for target: ImportTarget, _ purpose: Purpose = .importing) throws -> [String] {
        try abandoned(for: target, purpose).map { directory in
            if purpose == .importing { try undoPublication(from: directory, target) }
            remove(directory)
            return directory
        }
    }

    /// The directories that runs of a kind left for this target that were killed.
    static func abandoned(for target: ImportTarget, _ purpose: Purpose) throws -> [String] {
        let folder = Files.directory(of: target.path)
        let names = (try? Files.names(inDirectory: folder)) ?? []
        return try names.sorted().compactMap { name in
            guard let process = process(ofName: name, target: Files.name(of: target.path), purpose) else { return nil }
            let directory = "\(folder)/\(name)"
            return try isAbandoned(directory, process) ? directory : nil
        }
    }

    /// The process that made a directory, by its name; nil when it is none of ours.
    static func process(ofName name: String, target: String, _ purpose: Purpose = .importing) -> Int32? {
        let beginning = "\(target).\(purpose.rawValue)-"
        guard name.hasPrefix(beginning) else { return nil }
        let parts = name.dropFirst(beginning.count).split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 2, parts[1].count == 8, parts[1].allSatisfy(\.isHexDigit) else { return nil }
        return Int32(parts[0])
    }

    private static func isAbandoned(_ directory: String, _ process: Int32) throws -> Bool {
        guard try Files.kind(directory) == .directory else { return false }
        let path = "\(directory)/\(lockName)"
        guard Files.exists(path) else { return !ProcessInspector.isAlive(process) }
        return try !LockFile(path: path, likeFile: nil).isHeld(.admin)
    }

    /// Takes a publication back that was cut before the sidecar: the database alone is of no use to anybody.
    private static func undoPublication(from directory: String, _ target: ImportTarget) throws {
        let staged = "\(directory)/\(Files.name(of: target.path))"
        let opening = try target.lockOpening(likeFile: staged)
        defer { opening.release() }
        let paths = StorePaths(target.path)
        guard !Files.exists(paths.sidecar), !Files.exists(paths.sidecarBackup),
            let published = try Files.identity(target.path), try Files.identity(staged) == published
        else { return }
        try Files.remove(target.path)
    }
}

extension FileManager {
    fileprivate func removeItemIfEmpty(_ directory: String) throws {
        if try contentsOfDirectory(atPath: directory).isEmpty { try removeItem(atPath: directory) }
    }
}

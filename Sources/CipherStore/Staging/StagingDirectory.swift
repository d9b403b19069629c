import CipherDatabase
import Foundation
import KeyCustody
import StorePlatform
import StoreSharing

/// A directory in which files are created and verified before they are put in place: beside the target, so that putting
/// them in place is a link or a rename within one filesystem.
///
/// Its name is `<target>.<purpose>-<pid>-<8 hex digits>`. It belongs to the process that holds the lock of the lock
/// file in it: its maker during the work, and the process that removes it after a crash. A directory exists before it
/// can be locked, so another process may lock or remove it in between. The maker then leaves it and makes another one.
///
/// Anyone who may write in the folder of the target can put something of this name there, or give the name of this
/// directory to another one. So a directory is opened once, without following a link. It is locked, emptied and published
/// from through that descriptor only. SQLite takes paths; ``requireOpened(_:)`` proves that
/// its files are those of the directory.
package final class StagingDirectory: Sendable {
    package typealias Purpose = StagingPurpose

    package let path: String
    /// The name of the database that is made in it. It is a new one each time. SQLite takes paths: if another directory got
    /// the name of this one, with a link to a directory of this user for example, then no file there has this name or one
    /// of the names that SQLite derives from it. So none is opened, changed or removed.
    package let fileName: String
    /// The path of ``fileName``.
    package var filePath: String { "\(path)/\(fileName)" }
    /// The directory itself, whatever its path names by now.
    package var folder: OpenFolder { place.folder }
    private let place: Place
    private let lock: HeldLock

    /// - Parameters:
    ///   - target: The path that the finished work gets.
    ///   - afterMaking: Called when a directory exists and is not locked yet, where tests remove it.
    /// - Throws: `SystemError`; no directory is left then.
    package init(for target: String, _ purpose: Purpose, afterMaking: (String) throws -> Void = { _ in }) throws {
        let parent = try OpenFolder(opening: Files.directory(of: target))
        fileName = StagedName.new()
        while true {
            let digits = String(UInt32.random(in: 0x1000_0000 ... .max), radix: 16)
            let suffix = ".\(purpose.rawValue)-\(ProcessInspector.currentProcess)-\(digits)"
            let name = Files.name(of: target) + suffix
            try parent.createFolder(name)
            try afterMaking(target + suffix)
            guard let (place, lock) = try Self.takeOver(parent, name, Files.name(of: target), purpose) else { continue }
            path = target + suffix
            self.place = place
            self.lock = lock
            return
        }
    }

    /// Opens and locks a new directory, or removes it if that fails; nil when another process has locked or removed it.
    private static func takeOver(
        _ parent: OpenFolder, _ name: String, _ target: String, _ purpose: Purpose
    ) throws(SystemError) -> (Place, HeldLock)? {
        do {
            guard let place = try Place(parent, name, target: target, purpose), let lock = try place.takeOver() else {
                return nil
            }
            return (place, lock)
        } catch {
            // One that another user has given this name stays.
            if !error.isStale { try? parent.removeFolder(name) }
            throw error
        }
    }

    /// Removes the directory with all that was made in it.
    package func remove() {
        place.remove { _ in true }
        lock.release()
    }

    // MARK: Files that are made in it

    /// Refuses a file that SQLite has opened by its path, unless it is the file of this directory.
    ///
    /// SQLite resolves every link in a path, `/proc/self/fd/N` too, and opens it by name. So another user of a shared
    /// folder could have put another directory there for that moment, and would get the rows. The directory is private:
    /// if this process has the file in it open, nobody but SQLite has opened it.
    ///
    /// - Throws: `SystemError` with `ESTALE`.
    package func requireOpened() throws(SystemError) { try requireOpened(fileName) }

    package func requireOpened(_ name: String) throws(SystemError) {
        guard place.hasItsName, let file = try folder.status(of: name), file.kind == .regular,
            OpenFolder.hasOpened(file.identity) ?? true
        else { throw SystemError.exchanged("open", "\(path)/\(name)") }
    }

    /// Gives a finished file of the directory a name that must be free. If the filesystem has hard links, the file
    /// keeps its name in the directory as well.
    ///
    /// - Throws: `SystemError`, also where the name exists.
    @discardableResult
    package func link(_ name: String, to newPath: String) throws(SystemError) -> OwnedName {
        guard let identity = try folder.status(of: name)?.identity else {
            throw SystemError.exchanged("linkat", "\(path)/\(name)")
        }
        let parent = try target(of: newPath)
        try folder.place(name, in: parent, Files.name(of: newPath))
        return OwnedName(Files.name(of: newPath), in: parent, of: identity)
    }

    /// Renames a finished file of the directory, durably; a file that had the new name is replaced.
    package func move(_ name: String, to newPath: String) throws(SystemError) {
        let target = try target(of: newPath)
        try folder.rename(name, to: target, Files.name(of: newPath))
        try target.synchronize()
    }

    /// The folder in which the directory was made, whatever its path names by now; another one for a target elsewhere.
    private func target(of newPath: String) throws(SystemError) -> OpenFolder {
        let directory = Files.directory(of: newPath)
        return directory == Files.directory(of: path) ? place.parent : try OpenFolder(opening: directory)
    }

    /// Writes a file of the directory to disk.
    package func synchronize(_ name: String) throws(SystemError) {
        guard let file = try folder.file(name) else { throw SystemError.exchanged("open", "\(path)/\(name)") }
        try file.synchronize()
    }

    /// Renames the directory itself to the target, durably.
    ///
    /// The system renames by name alone, so the directory is compared before and after.
    ///
    /// - Throws: `SystemError` with `ESTALE` where another directory has, or got, the name.
    func moveItself(to newPath: String) throws(SystemError) {
        try AtomicFile.move(path, verifiedAs: folder.status().identity, to: newPath)
    }

    /// Releases the directory after it was renamed to the target, and removes its lock file there.
    func releaseRenamed() {
        // Not earlier: the lock file shows that a directory is being made.
        try? place.folder.remove(place.purpose.lockName)
        lock.release()
    }

    // MARK: Directories of processes that were killed

    /// The name of a file in such a directory; nil when it is not there.
    package static func name(of file: FileIdentity, in folder: OpenFolder) throws(SystemError) -> String? {
        for name in try folder.names(limit: StoreLimits.stagedFiles) {
            if try folder.status(of: name)?.identity == file { return name }
        }
        return nil
    }

    /// Removes the directories for a target whose makers were killed; for a backup also those for other targets in the
    /// same folder, because each backup has another name.
    ///
    /// Only a real directory that is this user's alone is removed, and only if it has the lock file and nothing but
    /// regular files which the purpose makes, or if it is empty.
    /// - Parameter beforeRemoving: Called with each directory and its path, under its lock.
    /// - Returns: The directories that were removed.
    /// - Throws: `SystemError` where the parent directory of the target cannot be read; the errors of `beforeRemoving`.
    @discardableResult
    package static func removeAbandoned(
        for target: String, _ purpose: Purpose, beforeRemoving: (String, OpenFolder) throws -> Void = { _, _ in }
    ) throws -> [String] {
        try places(for: target, purpose).compactMap { path, process, place in
            guard place.isOwn, place.isOfTarget || place.isAbandoned(process),
                // A missing lock file is created: its maker was killed before it created one, or is about to create it
                // and then finds that the directory is not its own.
                let lock = (try? place.lock()) ?? nil
            else { return nil }
            defer { lock.release() }
            guard place.isOwn, place.hasItsName else { return nil }
            try beforeRemoving(path, place.folder)
            place.remove(place.owns)
            return path
        }
    }

    /// The directories for a target whose makers were killed. Nothing is locked or changed.
    package static func abandoned(for target: String, _ purpose: Purpose) throws -> [String] {
        try places(for: target, purpose).compactMap { path, process, place in
            place.isOfTarget && place.isAbandoned(process) ? path : nil
        }
    }

    private static func places(
        for target: String, _ purpose: Purpose
    ) throws -> [(path: String, process: Int32, place: Place)] {
        let folder = Files.directory(of: target)
        let parent = try OpenFolder(opening: folder)
        return try Files.names(inDirectory: folder).sorted().compactMap { name in
            guard let (owner, process) = owner(ofName: name, purpose),
                purpose == .backup || owner == Files.name(of: target),
                // Also nil for a link to a directory.
                var place = try? Place(parent, name, target: owner, purpose)
            else { return nil }
            place.isOfTarget = owner == Files.name(of: target)
            return (folder == "/" ? "/\(name)" : "\(folder)/\(name)", process, place)
        }
    }

    /// The target of a directory and the process that made it, from its name; nil when it is not a staging directory.
    package static func owner(ofName name: String, _ purpose: Purpose) -> (target: String, process: Int32)? {
        guard let mark = name.range(of: ".\(purpose.rawValue)-", options: .backwards), mark.lowerBound > name.startIndex
        else { return nil }
        let parts = name[mark.upperBound...].split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 2, parts[1].count == 8, parts[1].allSatisfy(\.isHexDigit), let process = Int32(parts[0])
        else { return nil }
        return (String(name[..<mark.lowerBound]), process)
    }
}

/// A staging directory that is open, in its open parent.
private struct Place: Sendable {
    let folder: OpenFolder
    let purpose: StagingPurpose
    let parent: OpenFolder
    private let name: String
    /// The name of the file or folder for which it was made, and which earlier versions gave to the file in it.
    private let target: String
    /// Whether it was made for the target of the caller.
    var isOfTarget = true

    /// nil when the name does not exist.
    ///
    /// - Throws: `SystemError` with `ENOTDIR` when it is not a directory, also for a link to one.
    init?(_ parent: OpenFolder, _ name: String, target: String, _ purpose: StagingPurpose) throws(SystemError) {
        guard let folder = try parent.folder(name) else { return nil }
        self.folder = folder
        self.parent = parent
        self.name = name
        self.target = target
        self.purpose = purpose
    }

    // MARK: Ownership

    /// Whether a file of this name is one that the purpose makes.
    func owns(_ name: String) -> Bool {
        if isLock(name) { return true }
        let made = purpose == .backup ? [BackupBundle.databaseName, BackupBundle.manifestName] : [target]
        return StagedName.isOne(name) && purpose != .backup
            || made.contains { name == $0 || name.hasPrefix($0 + "-") || name.hasPrefix($0 + ".") }
    }

    /// Whether this library made it for this user. A directory that another user has put there stays as it is.
    ///
    /// Another user of a shared folder may rename directories of this user. So a directory that others may write is not
    /// one; nor is one without a lock file, unless it is empty: a finished backup has none, nor a store in a directory of
    /// its own.
    var isOwn: Bool {
        guard folder.isPrivate, let names = try? folder.names(limit: StoreLimits.stagedFiles) else { return false }
        return (names.isEmpty || names.contains(where: isLock))
            && names.allSatisfy { owns($0) && (try? folder.status(of: $0))?.kind == .regular }
    }

    private func isLock(_ name: String) -> Bool {
        name == purpose.lockName || name.hasPrefix(purpose.lockName + ".tmp-")
    }

    /// Whether its name is still that of the directory that is open.
    var hasItsName: Bool { folder.isNamed(name, in: parent) }

    /// Whether no process holds its lock; without a lock file, whether its maker has ended.
    func isAbandoned(_ process: Int32) -> Bool {
        guard let isHeld = try? LockFile.isHeld(purpose.lockName, in: folder, .admin) else {
            return (try? folder.status(of: purpose.lockName)) == nil && !ProcessInspector.isAlive(process)
        }
        return !isHeld
    }

    /// Locks it; nil when another process has locked or removed it.
    func lock() throws(SystemError) -> HeldLock? {
        do {
            return try LockFile.tryLock(purpose.lockName, in: folder, .admin, .exclusive)
        } catch {
            if error.isNotFound { return nil }
            throw error
        }
    }

    /// Locks a new directory, or removes it if that fails; nil when another process has locked or removed it.
    ///
    /// - Throws: `SystemError` with `ESTALE` where another directory has its name.
    func takeOver() throws(SystemError) -> HeldLock? {
        // A process that takes it for an abandoned one creates only the lock file.
        try folder.makePrivate(isExpected: isLock)
        do {
            return try lock()
        } catch {
            remove { _ in true }
            throw error
        }
    }

    // MARK: Removing

    /// Removes files in the directory, its lock file last, and the directory if it is empty then.
    func remove(_ isRemoved: (String) -> Bool) {
        let names = (try? folder.names(limit: StoreLimits.stagedFiles)) ?? []
        for name in names where name != purpose.lockName && isRemoved(name) { removeTwice(name) }
        removeTwice(purpose.lockName)
        // Only if it is empty: a process that has created a lock file in it since is its owner now.
        for _ in 0..<2 where hasItsName && (try? parent.removeFolder(name)) != nil { return }
    }

    /// A disk may refuse a removal once and perform it the next time.
    private func removeTwice(_ name: String) {
        for _ in 0..<2 where (try? folder.remove(name)) != nil { return }
    }
}

/// The name of a database that is being made: `staged-<16 hex digits>`.
private enum StagedName {
    private static let prefix = "staged-"
    private static let digits = 16

    static func new() -> String {
        let number = String(UInt64.random(in: 0x1000_0000_0000_0000 ... .max), radix: 16)
        return prefix + number
    }

    /// Whether it is such a name, or that of a file beside such a database.
    static func isOne(_ name: String) -> Bool {
        guard name.hasPrefix(prefix) else { return false }
        let rest = name.dropFirst(prefix.count)
        let number = rest.prefix { $0.isHexDigit }
        return number.count == digits && (number.count == rest.count || rest.dropFirst(digits).first == "-")
    }
}

extension StagingPurpose {
    /// The file in the directory whose lock shows that it is in use.
    var lockName: String { self == .backup ? "backup.lock" : "import.lock" }
}

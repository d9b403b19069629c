import StoreCrypto
import StorePlatform
import StoreSharing

/// The key log of a store, `<database>-keylog`: what happened to its keys, when, and by which process and user. Lines
/// are only appended, and each contains the hash of the one before.
///
/// It is for people and monitoring: nothing is decided by it, and a store without it is just as usable. A program that
/// may write the file can rewrite it from any line on. A chain that must prove something has to be copied elsewhere, or
/// at least its last hash.
package struct KeyLog: Sendable {
    package let databasePath: String
    /// The longest wait for another process that appends a line.
    var wait = Duration.seconds(5)

    package init(databasePath: String) { self.databasePath = databasePath }

    package var path: String { databasePath + "-keylog" }
    /// The lines before those of the present file, once the log has reached its bound (``CustodyLimits/keyLogBytes``).
    package var formerPath: String { path + ".1" }

    /// Appends an event and makes it durable.
    ///
    /// A line that a power failure left incomplete is terminated, and another line records that. When the file has
    /// reached its bound, it is renamed to ``formerPath`` and replaces the file there. The chain continues in a new
    /// file.
    /// - Parameter authority: The keyslot whose key authorized the event; nil where no keyslot did.
    /// - Throws: ``StoreError`` `storeInUse` when other processes append for too long; ``SystemError``;
    ///   ``CryptoError``.
    func record(_ event: KeyEvent, authorizedBy authority: UInt64? = nil) throws {
        let lock = try lock()
        defer { lock.release() }
        try append(authorizedBy: authority) { _ in event }
    }

    /// Accepts the log as it is. A fault in it, or a missing part, is a problem again only if it changes.
    ///
    /// - Parameter epoch: The epoch of the sidecar.
    /// - Returns: The number of problems that were acknowledged. Nil when there was nothing to acknowledge; then
    ///   nothing is written.
    /// - Throws: As ``record(_:)``.
    package func acknowledge(epoch: UInt64) throws -> Int? {
        let lock = try lock()
        defer { lock.release() }
        let audit = try verify()
        guard !audit.problems.isEmpty || audit.entries.isEmpty || audit.note(onEpoch: epoch) != nil else { return nil }
        // The acknowledged lines and the acknowledgement must not be in different files.
        if try Files.byteCount(path) ?? 0 > CustodyLimits.keyLogBytes - 2 * CustodyLimits.keyLogLineBytes {
            try beginFile()
        }
        let former = try content(of: formerPath)
        try append { before in
            .logAcknowledged(
                try KeyLogAcknowledgement(
                    problems: audit.problems.count, epoch: epoch, former: former, present: before[...]))
        }
        return audit.problems.count
    }

    private func lock() throws -> HeldLock {
        try LockFile(path: databasePath + "-lock", likeFile: databasePath)
            .lock(.keyLog, .exclusive, deadline: .now + wait)
    }

    /// - Parameter event: Returns the event from the bytes before its line in the file.
    private func append(authorizedBy authority: UInt64? = nil, _ event: ([UInt8]) throws -> KeyEvent) throws {
        let end = try end()
        var number = end.last?.number ?? 0
        var previous = end.last?.hash ?? KeyLogEntry.beginning
        var lines: [UInt8] = end.isLineOpen ? [UInt8(ascii: "\n")] : []
        func add(_ event: KeyEvent, authorizedBy authority: UInt64? = nil) throws {
            number = KeyLogEntry.number(after: number)
            let entry = try KeyLogEntry(event, authorizedBy: authority, number: number, after: previous)
            previous = entry.hash
            lines += Array(entry.line.utf8) + [UInt8(ascii: "\n")]
        }
        if end.damagedBytes > 0 { try add(.logDamaged(bytes: end.damagedBytes)) }
        try add(event((content(of: path) ?? []) + lines), authorizedBy: authority)
        try append(lines)
    }

    /// Renames the file to ``formerPath``, where it replaces the former one.
    private func beginFile() throws(SystemError) { try AtomicFile.move(path, to: formerPath) }

    /// Appends an event if that is possible: the change that it records has happened already.
    ///
    /// - Parameter authority: The keyslot whose key authorized the event; nil where no keyslot did.
    /// - Returns: A message for the user when it was not possible.
    package func note(_ event: KeyEvent, authorizedBy authority: UInt64? = nil) -> String? {
        do {
            try record(event, authorizedBy: authority)
            return nil
        } catch {
            return "the key log \"\(path)\" could not record the event \(event.name): \(error)"
        }
    }

    private func append(_ lines: [UInt8]) throws {
        var length = try Files.byteCount(path) ?? 0
        if length > 0, length + lines.count > CustodyLimits.keyLogBytes {
            try beginFile()
            length = 0
        }
        if length == 0 { try AtomicFile.createEmpty(at: path, likeFile: databasePath) }
        let file = try FileDescriptor(opening: path, .readWrite, followsLinks: false)
        let status = try file.status()
        guard status.kind == .regular else { throw SystemError.permissionDenied("open", path) }
        try file.requireNoSecondName()
        try Self.requireOwn(file, byteCount: status.byteCount)
        try file.write(lines, at: status.byteCount)
        try file.synchronize()
    }

    /// Refuses a file of another content: another user may have given the name to a file of this user. A key log has at least
    /// one entry, the beginning of one, or nothing but zeros, which a power failure leaves.
    private static func requireOwn(_ file: borrowing FileDescriptor, byteCount: Int) throws {
        let bytes = try file.read(at: 0, byteCount: min(byteCount, 4 * CustodyLimits.keyLogBytes))
        let start = Array("{\"number\":".utf8)
        if bytes.starts(with: start.prefix(bytes.count)) || bytes.allSatisfy({ $0 == 0 }) { return }
        for line in bytes.split(separator: UInt8(ascii: "\n")) where try KeyLogEntry(reading: Array(line)) != nil {
            return
        }
        throw SystemError.foreign("open", file.path, "key log")
    }

    /// The present end of the chain.
    private struct End {
        /// The last complete line; nil at the beginning.
        var last: KeyLogEntry?
        /// The number of bytes after it that are not a line.
        var damagedBytes = 0
        /// Whether the file ends without an end of line.
        var isLineOpen = false
    }

    private func end() throws -> End {
        var end = End()
        for path in [path, formerPath] {
            guard let bytes = try content(of: path) else { continue }
            if path == self.path {
                end.isLineOpen = bytes.last.map { $0 != UInt8(ascii: "\n") } ?? false
                end.damagedBytes = bytes.count
            }
            var rest = bytes[...]
            while !rest.isEmpty {
                let line = rest.dropLast(rest.last == UInt8(ascii: "\n") ? 1 : 0)
                let start = line.lastIndex(of: UInt8(ascii: "\n")).map { $0 + 1 } ?? rest.startIndex
                // A line without its end of line may be complete: its hash shows that.
                if let entry = try KeyLogEntry(reading: Array(line[start...])) {
                    if path == self.path { end.damagedBytes = bytes.count - rest.count }
                    end.last = entry
                    return end
                }
                rest = rest[..<start]
            }
        }
        return end
    }

    /// The lines of the present file that are entries, each with its end; empty when it does not exist. Nothing else of the
    /// file is in them: another user may have given its name to a private file.
    ///
    /// - Throws: ``SystemError``, with `EEXIST` for a file of a user who may not write the database, with `EFBIG` for one
    ///   that is too long to be a key log.
    package func entryLines() throws -> [UInt8] {
        var lines: [UInt8] = []
        for line in try (content(of: path) ?? []).split(separator: UInt8(ascii: "\n"))
        where try KeyLogEntry(reading: Array(line)) != nil {
            lines += line + [UInt8(ascii: "\n")]
        }
        return lines
    }

    /// The bytes of one of the two files; nil when it does not exist.
    ///
    /// - Throws: ``SystemError``, with `EEXIST` for a file of a user who may not write the database.
    func content(of path: String) throws(SystemError) -> [UInt8]? {
        if let status = try Files.ownStatus(of: path) {
            try FileAccess.requireOwn(status, path, beside: databasePath)
        }
        do {
            // Another program may have made it longer; a file beyond this bound is not read.
            return try Files.contents(of: path, limitBytes: 4 * CustodyLimits.keyLogBytes)
        } catch  where error.isNotFound {
            return nil
        }
    }
}

import CPlatform

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// An open file that this value owns and closes; child programs never inherit it.
///
/// It has one owner. A file that several threads read and write, or that is closed at a known moment, is an
/// ``OpenFile``.
package struct FileDescriptor: ~Copyable, Sendable {
    /// The access mode.
    package enum Access: Sendable {
        case readOnly
        case writeOnly
        case readWrite
    }

    /// The action if the file does not exist, or exists.
    package enum Creation: Sendable {
        /// The file must exist.
        case never
        /// The file is created with these permissions, less the process's umask, when it does not exist.
        case ifMissing(permissions: UInt32)
        /// The file must not exist, not even as a dangling symbolic link.
        case always(permissions: UInt32)
    }

    /// The number of the descriptor, for calls that this type does not wrap. It must not be closed.
    package let number: Int32
    /// The path it was opened by, for error messages.
    package let path: String

    /// Opens a file.
    ///
    /// - Parameters:
    ///   - followsLinks: Whether the path may end in a symbolic link, or name something else than a regular file.
    ///     Otherwise a link fails with `ELOOP`, and a pipe or device with `EINVAL`: opening it does not wait.
    ///   - mustBeRegular: Whether the file, also one behind a link, must be a regular one: a pipe or device fails with
    ///     `EINVAL`, also one that another user puts there at this moment. Opening it does not wait for the other end of a
    ///     pipe, and at most five seconds for a process that has a lease on the file (`EAGAIN`).
    ///   - waitsForWriter: Whether opening a named pipe waits for a writer; otherwise no operation on the file waits,
    ///     until ``FileDescriptor/waitFromNowOn()``.
    package init(
        opening path: String, _ access: Access, creating creation: Creation = .never, followsLinks: Bool = true,
        mustBeRegular: Bool = false, waitsForWriter: Bool = true
    ) throws(SystemError) {
        var flags = O_CLOEXEC | O_NOCTTY | (followsLinks ? 0 : O_NOFOLLOW)
        let mustBeRegular = mustBeRegular || !followsLinks
        if !waitsForWriter || mustBeRegular { flags |= O_NONBLOCK }
        switch access {
        case .readOnly: flags |= O_RDONLY
        case .writeOnly: flags |= O_WRONLY
        case .readWrite: flags |= O_RDWR
        }
        var permissions: UInt32 = 0
        switch creation {
        case .never: break
        case .ifMissing(let wanted): (flags, permissions) = (flags | O_CREAT, wanted)
        case .always(let wanted): (flags, permissions) = (flags | O_CREAT | O_EXCL, wanted)
        }
        let (allFlags, mode) = (flags, mode_t(permissions))
        let opened = RegularFile.withoutWaiting { open(path, allFlags, mode) }
        guard opened >= 0 else { throw SystemError.opening("open", path) }
        if mustBeRegular, let refusal = Self.refusal(ofUnexpected: opened, path) {
            close(opened)
            throw refusal
        }
        self.init(owning: opened, path: path)
    }

    /// Why an open file may not be used: it is no regular one. Nil where it is.
    private static func refusal(ofUnexpected number: Int32, _ path: String) -> SystemError? {
        var found = stat()
        guard fstat(number, &found) == 0 else { return SystemError("fstat", path) }
        let kind = FileStatus(found).kind
        return kind == .regular ? nil : SystemError.notRegular("open", path, kind)
    }

    /// Takes ownership of an open descriptor.
    init(owning number: Int32, path: String) {
        self.number = number
        self.path = path
    }

    /// A second descriptor of the same open file as `number`, which the caller keeps.
    package init(duplicating number: Int32, path: String) throws(SystemError) {
        let duplicate = fcntl(number, F_DUPFD_CLOEXEC, 3)
        guard duplicate >= 0 else { throw SystemError("dup", path) }
        self.init(owning: duplicate, path: path)
    }

    deinit { close(number) }

    /// Whether this process may have so many more descriptors at this moment.
    package static func areAvailable(_ count: Int) -> Bool {
        var opened: [Int32] = []
        defer { for number in opened { close(number) } }
        for _ in 0..<count {
            let number = retryingInterrupts { open("/dev/null", O_RDONLY | O_CLOEXEC) }
            // Only a limit counts: there may be no such file.
            guard number >= 0 else { return errno != EMFILE && errno != ENFILE }
            opened.append(number)
        }
        return true
    }

    /// The status of the open file.
    package func status() throws(SystemError) -> FileStatus {
        var found = stat()
        guard fstat(number, &found) == 0 else { throw SystemError("fstat", path) }
        return FileStatus(found)
    }

    /// Whether it is a pipe without a name, which no other process can open by a path.
    package var isUnnamedPipe: Bool {
        guard let status = try? status(), status.isPipe else { return false }
        // All pipes without a name are files of one device.
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { return false }
        defer { for end in ends { close(end) } }
        var found = stat()
        return fstat(ends[0], &found) == 0 && FileStatus(found).identity.device == status.identity.device
    }

    /// Reads what is available, up to the length of `buffer`, from where the last read ended.
    ///
    /// - Returns: The number of bytes read; 0 at the end of the file.
    package func read(into buffer: UnsafeMutableRawBufferPointer) throws(SystemError) -> Int {
        let count = retryingInterrupts { readOnce(buffer) }
        guard count >= 0 else { throw SystemError("read", path) }
        return count
    }

    private func readOnce(_ buffer: UnsafeMutableRawBufferPointer) -> Int {
        #if canImport(Darwin)
            Darwin.read(number, buffer.baseAddress, buffer.count)
        #else
            Glibc.read(number, buffer.baseAddress, buffer.count)
        #endif
    }

    /// Reads `byteCount` bytes from a position of the file, or fewer when it ends before.
    package func read(at offset: Int, byteCount: Int) throws(SystemError) -> [UInt8] {
        try readAt(number, path, offset, byteCount: byteCount)
    }

    /// Reads from a position of the file, up to the length of `buffer` or the end of the file.
    ///
    /// - Returns: The number of bytes read.
    package func read(at offset: Int, into buffer: UnsafeMutableRawBufferPointer) throws(SystemError) -> Int {
        try readAt(number, path, offset, buffer)
    }

    /// Writes all bytes at the descriptor's position.
    package func write(_ bytes: [UInt8]) throws(SystemError) { try Self.write(bytes, to: number, path) }

    /// Writes all bytes to a standard stream, which the process keeps. That needs no other descriptor, of which there may be
    /// none left.
    package static func write(_ bytes: [UInt8], toStandard number: Int32, path: String) throws(SystemError) {
        try write(bytes, to: number, path)
    }

    /// Writes all bytes at the descriptor's position, without a copy of them.
    package func write(_ bytes: UnsafeRawBufferPointer) throws(SystemError) { try Self.write(bytes, to: number, path) }

    /// Writes all bytes to a standard stream, without a copy of them.
    package static func write(
        _ bytes: UnsafeRawBufferPointer, toStandard number: Int32, path: String
    ) throws(SystemError) {
        try write(bytes, to: number, path)
    }

    private static func write(_ bytes: [UInt8], to number: Int32, _ path: String) throws(SystemError) {
        let result = bytes.withUnsafeBytes { bytes in
            Result { () throws(SystemError) in try write(bytes, to: number, path) }
        }
        try result.get()
    }

    private static func write(
        _ bytes: UnsafeRawBufferPointer, to number: Int32, _ path: String
    ) throws(SystemError) {
        var written = 0
        while written < bytes.count {
            let count = retryingInterrupts { writeOnce(number, UnsafeRawBufferPointer(rebasing: bytes[written...])) }
            guard count >= 0 else { throw SystemError("write", path) }
            written += count
        }
    }

    /// Writes all bytes at a position of the file.
    package func write(_ bytes: [UInt8], at offset: Int) throws(SystemError) {
        guard bytes.withUnsafeBytes({ writeFully(number, offset, $0) }) else { throw SystemError("pwrite", path) }
    }

    private static func writeOnce(_ number: Int32, _ buffer: UnsafeRawBufferPointer) -> Int {
        #if canImport(Darwin)
            Darwin.write(number, buffer.baseAddress, buffer.count)
        #else
            Glibc.write(number, buffer.baseAddress, buffer.count)
        #endif
    }

    /// Waits until the file is readable or at its end.
    ///
    /// - Returns: False when the deadline passes first.
    package func waitUntilReadable(deadline: ContinuousClock.Instant) -> Bool {
        while true {
            let left = ContinuousClock.now.duration(to: deadline) / .milliseconds(1)
            guard left > 0 else { return false }
            var request = pollfd(fd: number, events: Int16(POLLIN), revents: 0)
            if poll(&request, 1, Int32(min(left + 1, 1000))) > 0 { return true }
        }
    }

    /// Makes reads wait, for a file that was opened without waiting.
    package func waitFromNowOn() throws(SystemError) {
        let flags = fcntl(number, F_GETFL)
        guard flags >= 0, fcntl(number, F_SETFL, flags & ~O_NONBLOCK) >= 0 else { throw SystemError("fcntl", path) }
    }

    /// Refuses a file that has a second name, before something is written into it: another user may have given the name
    /// to a file that is kept elsewhere.
    ///
    /// - Throws: ``SystemError`` with `EMLINK`.
    package func requireNoSecondName() throws(SystemError) {
        // Twice: the maker of a new file removes its temporary name.
        for _ in 0..<2 {
            let status = try status()
            guard status.linkCount > 1 else { return }
            if status.byteCount == 0, AtomicFile.isNew(status, at: path) { return }
        }
        throw SystemError(
            call: "open", path: path, errorNumber: EMLINK, detail: "the file has a second name and is not written")
    }

    /// Sets exactly these permissions, independent of the umask.
    package func setPermissions(_ permissions: UInt32) throws(SystemError) {
        guard fchmod(number, mode_t(permissions)) == 0 else { throw SystemError("fchmod", path) }
    }

    /// Waits until the file's content and length are written to disk.
    package func synchronize() throws(SystemError) {
        #if canImport(Darwin)
            // fsync there stops at the drive's cache: https://www.sqlite.org/pragma.html#pragma_fullfsync
            let result = fcntl(number, F_FULLFSYNC)
        #else
            let result = retryingInterrupts { fsync(number) }
        #endif
        guard result != -1 else { throw SystemError("fsync", path) }
    }

    /// Waits until the file's content is written to disk, and its length as far as reading the content needs it.
    package func synchronizeContent() throws(SystemError) {
        #if canImport(Darwin)
            try synchronize()
        #else
            guard retryingInterrupts({ fdatasync(number) }) != -1 else { throw SystemError("fdatasync", path) }
        #endif
    }

    /// Truncates or extends the file to `byteCount` bytes.
    package func truncate(toByteCount byteCount: Int) throws(SystemError) {
        guard retryingInterrupts({ ftruncate(number, off_t(byteCount)) }) == 0 else {
            throw SystemError("ftruncate", path)
        }
    }

    /// Makes the file at least `byteCount` bytes long, with disk space for all of them: a write to mapped memory
    /// without disk space would end the process by SIGBUS.
    package func reserve(byteCount: Int) throws(SystemError) {
        let failure = cplatform_reserve(number, Int64(byteCount))
        guard failure == 0 else { throw SystemError(call: "fallocate", path: path, errorNumber: failure) }
    }

    /// Closes the file. A file without a name that no other process has open is truncated piece by piece first.
    ///
    /// The last close of a large file frees all of its space at once: 0.8 s for 1 GB on ext4, during which writers of
    /// other files waited up to 150 ms for the journal of the filesystem. A file that another process still reads is
    /// not truncated. The pieces of a file with holes are longer: there are as many as its space has.
    package consuming func closeGradually() {
        guard let status = try? status(), status.linkCount == 0, cplatform_is_sole_opener(number) else { return }
        var length = status.byteCount
        let pieces = status.allocatedBytes / PlatformLimits.bytesFreedAtOnce + 1
        let piece = max(PlatformLimits.bytesFreedAtOnce, length / pieces)
        while length > piece {
            length -= piece
            guard (try? truncate(toByteCount: length)) != nil else { return }
            CurrentThread.pause(microseconds: PlatformLimits.pauseOfFreeing)
        }
    }
}

/// Reads at a position until `buffer` is full or the file ends.
func readAt(
    _ number: Int32, _ path: String, _ offset: Int, _ buffer: UnsafeMutableRawBufferPointer
) throws(SystemError) -> Int {
    let filled = readFully(number, offset, buffer)
    guard filled >= 0 else { throw SystemError("pread", path) }
    return filled
}

/// Reads `byteCount` bytes at a position, or fewer when the file ends before.
func readAt(_ number: Int32, _ path: String, _ offset: Int, byteCount: Int) throws(SystemError) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: byteCount)
    let filled = bytes.withUnsafeMutableBytes { readFully(number, offset, $0) }
    guard filled >= 0 else { throw SystemError("pread", path) }
    bytes.removeLast(byteCount - filled)
    return bytes
}

/// Writes all bytes at a position.
func writeAt(
    _ number: Int32, _ path: String, _ offset: Int, _ bytes: UnsafeRawBufferPointer
) throws(SystemError) {
    guard writeFully(number, offset, bytes) else { throw SystemError("pwrite", path) }
}

/// - Returns: The number of bytes read; -1 with `errno` when it failed.
private func readFully(_ number: Int32, _ offset: Int, _ buffer: UnsafeMutableRawBufferPointer) -> Int {
    var filled = 0
    while filled < buffer.count {
        let count = retryingInterrupts {
            pread(number, buffer.baseAddress?.advanced(by: filled), buffer.count - filled, off_t(offset + filled))
        }
        if count < 0 { return -1 }
        if count == 0 { break }
        filled += count
    }
    return filled
}

/// - Returns: False with `errno` when it failed.
private func writeFully(_ number: Int32, _ offset: Int, _ bytes: UnsafeRawBufferPointer) -> Bool {
    var written = 0
    while written < bytes.count {
        let count = retryingInterrupts {
            pwrite(number, bytes.baseAddress?.advanced(by: written), bytes.count - written, off_t(offset + written))
        }
        if count < 0 { return false }
        written += count
    }
    return true
}

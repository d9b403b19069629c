import CipherDatabase
import CipherStore
import Dispatch
import RotationCore
import StorePlatform
import StoreSharing
import Synchronization

/// The file `<database>-rotating`, in which the re-encrypted pages are gathered. All threads may read and write.
///
/// It is made with the attributes of the database, and a file of that name is never written over. The medium gets what is
/// written soon, in the background, so that little is left when it must all be there.
final class RotationCopy: Sendable {
    let path: String
    private let file: OpenFile
    private let bytesInMemory = Atomic<Int>(0)
    private let isWritingBack = Atomic<Bool>(false)
    private let isNameDurable = Atomic<Bool>(false)
    private let queue = DispatchQueue(label: "CipherStore.RotationCopy", qos: .utility)
    private let pageBytes: Int

    /// Makes the file.
    ///
    /// - Throws: ``StoreError`` `rotationPending` when something else has the name; ``SystemError``.
    init(for paths: StorePaths, pageBytes: Int) throws {
        path = paths.rotationCopy
        self.pageBytes = pageBytes
        try Self.removeLeftover(of: paths)
        let file = try FileDescriptor(
            opening: path, .readWrite, creating: .always(permissions: FileAttributes.privatePermissions))
        do {
            try FileAttributes(of: paths.database)?.apply(to: file)
        } catch {
            try? Files.remove(path)
            throw error
        }
        self.file = OpenFile(file)
        CrashPoint.reach(.rotationCopyBegun)
    }

    // What the background does keeps this alive; so nobody works on the file any more.
    deinit { file.close() }

    /// Removes what a rotation that was cut has left. The caller holds the admin lock, and no key is pending.
    ///
    /// - Returns: Whether there was one.
    /// - Throws: ``StoreError`` `rotationPending` when it cannot be such a copy (``RotationLeftover``); ``SystemError``.
    @discardableResult
    static func removeLeftover(of paths: StorePaths) throws -> Bool {
        let path = paths.rotationCopy
        switch try RotationLeftover(at: path) {
        case .absent: return false
        case .foreign(let why): throw StoreError.copyInTheWay(path, why)
        case .copy:
            try Files.remove(path)
            return true
        }
    }

    /// Fills the buffer with pages.
    func read(firstPage: UInt32, into pages: UnsafeMutableRawBufferPointer) throws {
        let count = try file.read(at: (Int(firstPage) - 1) * pageBytes, into: pages)
        // What is missing at the end cannot be what was written.
        if count < pages.count {
            UnsafeMutableRawBufferPointer(rebasing: pages[count...]).initializeMemory(as: UInt8.self, repeating: 0xff)
        }
    }

    /// Writes pages.
    func write(firstPage: UInt32, _ pages: UnsafeRawBufferPointer) throws {
        try file.write(at: (Int(firstPage) - 1) * pageBytes, pages)
        let waiting = bytesInMemory.add(pages.count, ordering: .relaxed).newValue
        if waiting >= Limits.writebackBytes { writeBack() }
    }

    private func writeBack() {
        guard !isWritingBack.exchange(true, ordering: .acquiringAndReleasing) else { return }
        bytesInMemory.store(0, ordering: .relaxed)
        queue.async { [self] in
            file.beginWriteback()
            isWritingBack.store(false, ordering: .releasing)
        }
    }

    /// Gives the file the length of so many pages and brings all of it to the medium, the first time with its name: the
    /// sidecar that tells of the switch must not be there without the copy. That time nobody waits yet.
    func synchronize(pages: UInt32) throws {
        try file.truncate(toByteCount: Int(pages) * pageBytes)
        try queue.sync { try file.synchronize() }
        guard !isNameDurable.load(ordering: .acquiring) else { return }
        try Files.synchronize(directory: Files.directory(of: path))
        isNameDurable.store(true, ordering: .releasing)
    }

    /// Closes the file. It must be done before the file becomes the database: closing a descriptor of a database drops the
    /// locks that SQLite holds on it in this process.
    func close() {
        queue.sync { file.close() }
    }
}

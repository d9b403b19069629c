import CipherDatabase
import CipherStore
import Dispatch
import KeyCustody
import PageFormat
import RotationCore
import StoreCrypto
import StorePlatform
import StoreSharing
import Synchronization

/// The file `<database>-rotating`, which receives the re-encrypted pages. All threads may read and write.
///
/// It is created with the attributes of the database and never overwrites a file of that name. Written pages go to disk
/// early, in the background, so that the final fsync has little left to write.
final class RotationCopy: Sendable {
    let path: String
    private let file: OpenFile
    private let bytesInMemory = Atomic<Int>(0)
    private let isWritingBack = Atomic<Bool>(false)
    private let isNameDurable = Atomic<Bool>(false)
    private let queue = DispatchQueue(label: "CipherStore.RotationCopy", qos: .utility)
    private let pageBytes: Int

    /// Creates the file.
    ///
    /// - Throws: ``StoreError`` `rotationPending` when a file that is no copy has the name; ``SystemError``.
    init(for paths: StorePaths, pageBytes: Int) throws {
        path = paths.rotationCopy
        self.pageBytes = pageBytes
        try Self.removeLeftover(of: paths)
        let folder = try OpenFolder(opening: Files.directory(of: path), followsLinks: false)
        let file = try folder.newFile(Files.name(of: path))
        do {
            try FileAttributes(of: paths.database)?.apply(to: file)
        } catch {
            try? folder.remove(Files.name(of: path))
            throw error
        }
        self.file = OpenFile(file)
        CrashPoint.reach(.rotationCopyBegun)
    }

    // Background work retains this object, so nothing uses the file after its deinit.
    deinit { file.close() }

    /// Removes the leftover of an interrupted rotation. The caller must hold the admin lock, and no switch may be
    /// announced.
    ///
    /// - Returns: Whether a leftover existed.
    /// - Throws: ``StoreError`` `rotationPending` when the file cannot be such a copy (``RotationLeftover``);
    ///   ``SystemError``.
    @discardableResult
    static func removeLeftover(of paths: StorePaths) throws -> Bool {
        let path = paths.rotationCopy
        switch try RotationLeftover.remove(at: path) {
        case .absent: return false
        case .foreign(let why): throw StoreError.copyInTheWay(path, why)
        case .copy: return true
        }
    }

    /// Fills the buffer with pages.
    func read(firstPage: UInt32, into pages: UnsafeMutableRawBufferPointer) throws {
        let count = try file.read(at: PageLayout.offset(ofPage: firstPage, pageBytes: pageBytes), into: pages)
        // Bytes that are missing at the end get a value that fails the verification.
        if count < pages.count {
            UnsafeMutableRawBufferPointer(rebasing: pages[count...]).initializeMemory(as: UInt8.self, repeating: 0xff)
        }
    }

    /// Writes pages.
    func write(firstPage: UInt32, _ pages: UnsafeRawBufferPointer) throws {
        try file.write(at: PageLayout.offset(ofPage: firstPage, pageBytes: pageBytes), pages)
        let waiting = bytesInMemory.add(pages.count, ordering: .relaxed).newValue
        if waiting >= RotationLimits.writebackBytes { writeBack() }
    }

    private func writeBack() {
        guard !isWritingBack.exchange(true, ordering: .acquiringAndReleasing) else { return }
        bytesInMemory.store(0, ordering: .relaxed)
        queue.async { [self] in
            file.beginWriteback()
            isWritingBack.store(false, ordering: .releasing)
        }
    }

    /// Sets the length of the file to this many pages and writes all of it to disk. The first call also writes its
    /// directory entry to disk: the sidecar must not announce the switch before the copy is durable. No process is
    /// paused during the first call.
    func synchronize(pages: UInt32) throws {
        try file.truncate(toByteCount: Int(pages) * pageBytes)
        try queue.sync { try file.synchronize() }
        guard !isNameDurable.load(ordering: .acquiring) else { return }
        try Files.synchronize(directory: Files.directory(of: path))
        isNameDurable.store(true, ordering: .releasing)
    }

    /// The file itself, whatever its name names by now.
    var identity: FileIdentity { get throws { try file.status().identity } }

    /// Closes the file. Must be called before the file becomes the database: closing a descriptor of a database
    /// releases the locks that SQLite holds on it in this process.
    func close() {
        queue.sync { file.close() }
    }
}

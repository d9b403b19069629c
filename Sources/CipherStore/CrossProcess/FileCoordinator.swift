import Foundation
import StorePlatform
import StoreSharing
import Synchronization

/// Serialises the access of processes to a file, as `NSFileCoordinator` does on Apple platforms.
///
/// ```swift
/// let coordinator = FileCoordinator(filePresenter: nil)
/// let pool = try coordinator.coordinate(writingItemAt: url) { url in try openPool(at: url) }
/// ```
///
/// Any number of readers run together; a writer runs alone. The lock is a byte of `<file>-lock` that nothing else uses,
/// so a coordination may contain any opening of a store. The kernel releases it when the process dies. A coordinator
/// that already holds the lock of a file may acquire it again; two coordinators on one thread wait for each other.
public final class FileCoordinator: Sendable {
    /// How a file is about to be written; kept for existing code, all options mean the same.
    public struct WritingOptions: OptionSet, Sendable {
        public let rawValue: Int
        public init(rawValue: Int) { self.rawValue = rawValue }
        public static let forDeleting = WritingOptions(rawValue: 1)
        public static let forMoving = WritingOptions(rawValue: 2)
        public static let forMerging = WritingOptions(rawValue: 4)
        public static let forReplacing = WritingOptions(rawValue: 8)
        public static let contentIndependentMetadataOnly = WritingOptions(rawValue: 16)
    }

    /// How a file is about to be read; kept for existing code, all options mean the same.
    public struct ReadingOptions: OptionSet, Sendable {
        public let rawValue: Int
        public init(rawValue: Int) { self.rawValue = rawValue }
        public static let withoutChanges = ReadingOptions(rawValue: 1)
        public static let resolvesSymbolicLink = ReadingOptions(rawValue: 2)
        public static let immediatelyAvailableMetadataOnly = ReadingOptions(rawValue: 4)
        public static let forUploading = ReadingOptions(rawValue: 8)
    }

    /// The longest wait for the lock.
    public let timeout: Duration
    private let held = Mutex<[Turn: HeldLock]>([:])

    private struct Turn: Hashable {
        let path: String
        let thread: UInt
    }

    /// Makes a coordinator.
    ///
    /// - Parameters:
    ///   - filePresenter: Not used; existing code passes nil.
    ///   - timeout: The longest wait for the lock.
    public init(filePresenter: (any Sendable)? = nil, timeout: Duration = .seconds(60)) { self.timeout = timeout }

    // MARK: Swift's form

    /// Runs `body` while no other process reads or writes the file in coordination.
    ///
    /// - Throws: The error of `body`, `StoreError.storeInUse` when the timeout passes, `SystemError`.
    public func coordinate<T>(
        writingItemAt url: URL, options: WritingOptions = [], byAccessor body: (URL) throws -> T
    ) throws -> T {
        try holding(url, .exclusive) { try body(url) }
    }

    /// Runs `body` while no other process writes the file in coordination.
    ///
    /// - Throws: The error of `body`, `StoreError.storeInUse` when the timeout passes, `SystemError`.
    public func coordinate<T>(
        readingItemAt url: URL, options: ReadingOptions = [], byAccessor body: (URL) throws -> T
    ) throws -> T {
        try holding(url, .shared) { try body(url) }
    }

    // MARK: The form of NSFileCoordinator

    /// Runs `writer` while no other process reads or writes the file in coordination.
    ///
    /// - Parameter outError: Receives the error when the lock is not acquired; `writer` has not run then.
    public func coordinate(
        writingItemAt url: URL, options: WritingOptions = [], error outError: UnsafeMutablePointer<NSError?>?,
        byAccessor writer: (URL) -> Void
    ) {
        report(to: outError) { try holding(url, .exclusive) { writer(url) } }
    }

    /// Runs `reader` while no other process writes the file in coordination.
    ///
    /// - Parameter outError: Receives the error when the lock is not acquired; `reader` has not run then.
    public func coordinate(
        readingItemAt url: URL, options: ReadingOptions = [], error outError: UnsafeMutablePointer<NSError?>?,
        byAccessor reader: (URL) -> Void
    ) {
        report(to: outError) { try holding(url, .shared) { reader(url) } }
    }

    private func report(to outError: UnsafeMutablePointer<NSError?>?, _ body: () throws -> Void) {
        do {
            try body()
        } catch {
            outError?.pointee = NSError(
                domain: "CipherStore.FileCoordinator", code: 1,
                userInfo: [NSLocalizedDescriptionKey: "\(error)", NSUnderlyingErrorKey: error])
        }
    }

    // MARK: Locks

    private func holding<T>(_ url: URL, _ kind: LockKind, _ body: () throws -> T) throws -> T {
        let path = Files.absolute(url.path)
        let turn = Turn(path: path, thread: CurrentThread.id)
        let outer = held.withLock { $0[turn] }
        // The lock that this thread holds covers a second request, unless that needs an exclusive one.
        if let outer, outer.kind == .exclusive || kind == .shared { return try body() }
        let lock = try LockFile(path: path + "-lock", likeFile: path, allowsReadOnly: kind == .shared)
            .lock(.coordinator, kind, deadline: .now + timeout)
        held.withLock { $0[turn] = lock }
        defer {
            held.withLock { $0[turn] = outer }
            lock.release()
        }
        return try body()
    }
}

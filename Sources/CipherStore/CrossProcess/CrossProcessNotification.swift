import CipherObservation
import Foundation
import StorePlatform
import StoreSharing
import Synchronization

/// Notifications between processes, by name and without content. An example: a store has new work for a program.
///
/// ```swift
/// let observation = try CrossProcessNotification.observe(name: "inbox", in: path) { refresh() }
/// try CrossProcessNotification.post(name: "inbox", in: path)
/// ```
///
/// They need no key and no open store: a process that may write the file `<database>-notify`, which the first observer
/// makes, posts and observes. Posts of one name that come faster than an observer takes them are one notification for
/// it. An observer hears of posts after its beginning, those of its own process included. If the store is observed
/// anyway (`ValueObservation`), commits of other processes need no notification.
public enum CrossProcessNotification {
    /// Posts a notification. If nobody observes, it does nothing.
    ///
    /// - Parameters:
    ///   - name: Any text.
    ///   - path: The database file of a store; the file itself is not opened.
    /// - Throws: `SystemError` when the process may not write the file of notifications.
    public static func post(name: String, in path: String) throws {
        #if canImport(Darwin)
            SystemNotifications.post(systemName(name, path))
        #else
            let name = NotificationName(name)
            guard let file = try NotificationFile.open(StorePaths(path)), let entry = file.entry(of: name) else {
                return
            }
            file.post(entry)
        #endif
    }

    /// Posts a notification. If nobody observes, it does nothing.
    public static func post(name: String, in url: URL) throws { try post(name: name, in: url.path) }

    /// Observes the notifications of a name.
    ///
    /// - Parameters:
    ///   - name: Any text.
    ///   - path: The database file of a store, which need not exist yet; its folder must.
    ///   - onPost: Called after posts, on a thread of the observation's own.
    /// - Returns: What keeps the observation. After a cancellation no call begins.
    /// - Throws: `SystemError` when the file of notifications cannot be made or opened, and `ENOSPC` when processes
    ///   observe 1024 names of the store.
    public static func observe(
        name: String, in path: String, onPost: @escaping @Sendable () -> Void
    ) throws -> AnyDatabaseCancellable {
        #if canImport(Darwin)
            let registration = try SystemNotifications.observe(systemName(name, path), onPost)
            return AnyDatabaseCancellable { registration.cancel() }
        #else
            let listener = try NotificationListener(NotificationName(name), StorePaths(path), onPost)
            listener.start()
            return AnyDatabaseCancellable { listener.stop() }
        #endif
    }

    /// Observes the notifications of a name.
    public static func observe(
        name: String, in url: URL, onPost: @escaping @Sendable () -> Void
    ) throws -> AnyDatabaseCancellable {
        try observe(name: name, in: url.path, onPost: onPost)
    }

    /// The notifications of a name as a sequence, which begins with the call. Notifications that come faster than the
    /// sequence is iterated are one element.
    ///
    /// - Throws: As ``observe(name:in:onPost:)-(_,String,_)``.
    public static func notifications(name: String, in path: String) throws -> AsyncStream<Void> {
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let observation = try observe(name: name, in: path) { continuation.yield() }
        continuation.onTermination = { _ in observation.cancel() }
        return stream
    }

    private static func systemName(_ name: String, _ path: String) -> String {
        let hash = NotificationName(StorePaths(path).database + "\0" + name)
        return "CipherStore." + String(hash.high, radix: 16) + "." + String(hash.low, radix: 16)
    }
}

/// A thread that waits for the posts of a name.
private final class NotificationListener: Sendable {
    private let name: NotificationName
    private let paths: StorePaths
    private let functions: Mutex<Functions>
    private let place: Mutex<Place>
    private let stopped = Atomic<Bool>(false)

    // A function that is itself the value of a Mutex is wrapped once more by each access.
    private struct Functions: Sendable {
        var onPost: (@Sendable () -> Void)?
    }

    private struct Place: Sendable {
        let file: NotificationFile
        let entry: Int
        /// The posts that were seen.
        var posts: UInt32

        init(_ name: NotificationName, _ paths: StorePaths) throws {
            file = try NotificationFile.make(paths)
            entry = try file.observe(name)
            posts = file.posts(of: entry)
        }
    }

    init(_ name: NotificationName, _ paths: StorePaths, _ onPost: @escaping @Sendable () -> Void) throws {
        self.name = name
        self.paths = paths
        functions = Mutex(Functions(onPost: onPost))
        place = Mutex(try Place(name, paths))
    }

    func start() {
        let thread = Thread { [self] in listen() }
        thread.name = "CipherStore.Notifications"
        thread.start()
    }

    func stop() {
        functions.withLock { $0.onPost = nil }
        stopped.store(true, ordering: .sequentiallyConsistent)
        let place = place.withLock { $0 }
        // A thread that is about to sleep ends at its next check.
        place.file.wake(place.entry)
    }

    private func listen() {
        while !stopped.load(ordering: .sequentiallyConsistent) {
            let current = place.withLock { $0 }
            let now = current.file.posts(of: current.entry)
            if now != current.posts {
                place.withLock { $0.posts = now }
                functions.withLock { $0 }.onPost?()
                continue
            }
            let canSleep = current.file.awaitPost(
                of: current.entry, after: current.posts, for: StoreLimits.notificationLookTime)
            if !canSleep { Pause.sleep(for: StoreLimits.notificationPollTime) }
            moveIfNeeded(current)
        }
        place.withLock { $0 }.file.close()
    }

    /// Goes over to the file that the path names now, as after the destruction of the store. Posts may have been missed.
    private func moveIfNeeded(_ current: Place) {
        guard current.file.posts(of: current.entry) == current.posts, !current.file.isCurrent,
            !stopped.load(ordering: .sequentiallyConsistent), let new = try? Place(name, paths)
        else { return }
        place.withLock { $0 = new }
        current.file.close()
        functions.withLock { $0 }.onPost?()
    }
}

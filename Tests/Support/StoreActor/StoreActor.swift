import CipherStore
import Foundation
import StorePlatform
import StoreSharing

/// A process that tests drive: one command a line on standard input, one answer a line on standard output.
///
/// Answers begin with `ok`, or with `error`, the name of the error's code, and its text. The commands of each theme are
/// in a file of their own.
@main
enum StoreActor {
    static func main() {
        // A process inherits what its starter blocks, and the threads of queues block signals.
        var none = sigset_t()
        sigemptyset(&none)
        pthread_sigmask(SIG_SETMASK, &none, nil)
        let actor = Actor()
        var lines = InputLines()
        while let line = lines.next() {
            let words = line.split(separator: " ").map(String.init)
            guard let command = words.first else { continue }
            do {
                answer("ok \(try actor.run(command, Array(words.dropFirst())))")
            } catch {
                answer(errorLine(error))
            }
        }
    }

    /// Writes one line at once: a buffer would keep it back from the test that waits for it.
    static func answer(_ line: String) {
        let whole = line.replacingOccurrences(of: "\n", with: " ")
        FileHandle.standardOutput.write(Data((whole + "\n").utf8))
    }

    /// `error`, the name of the error's code, its text.
    static func errorLine(_ error: any Error) -> String {
        switch error {
        case let error as StoreError: "error \(error.code.name) \(error)"
        case let error as DatabaseError: "error SQLite-\(error.extendedResultCode.rawValue) \(error)"
        default: "error \(type(of: error)) \(error)"
        }
    }
}

/// The lines of standard input, waited for in `read`: in `readLine` ThreadSanitizer holds signals back until one has come.
private struct InputLines {
    private var buffer: [UInt8] = []

    mutating func next() -> String? {
        while true {
            if let end = buffer.firstIndex(of: 10) {
                defer { buffer.removeSubrange(...end) }
                return String(decoding: buffer[..<end], as: UTF8.self)
            }
            var chunk = [UInt8](repeating: 0, count: 4096)
            let count = read(STDIN_FILENO, &chunk, chunk.count)
            if count < 0 && errno == EINTR { continue }
            guard count > 0 else { return nil }
            buffer += chunk.prefix(count)
        }
    }
}

/// A fault in a command itself.
enum ActorError: Error {
    case unknown(String)
    case nothingIsOpen
    case badArguments([String])
    case onlyInDebugBuilds
}

/// The open things of a process; its commands work on them. It is used by the main thread alone.
final class Actor {
    /// A command: gets the words behind its name, returns what stands behind `ok`.
    typealias Command = @Sendable (Actor, [String]) throws -> String

    var store: SharedStore?
    var pool: DatabasePool?
    let coordinator = FileCoordinator()
    /// Work that goes on while commands are answered.
    var teller: Teller?
    var crowd: Crowd?
    var busyWork: BusyWork?
    var longRead: BackgroundAccess?
    var snapshot: DatabaseSnapshot?
    var request: YieldRequest?
    var requestedLease: HeldLock?
    var stock: StockConnection?
    var stockKeyspec: [UInt8] = []
    var load: BankLoad?
    var observed: ObservedRows?
    var times: NoticeTimes?
    var posts: CountedPosts?
    var sleeper: WokenObserver?
    private let suspension = SuspensionCommands()

    /// All commands by their names. A theme adds its own here, with one line.
    static let commands: [String: Command] = [
        openingCommands,
        markCommands,
        holdingCommands,
        processCommands,
        faultCommands,
        checkpointCommands,
        bankCommands,
        crowdCommands,
        backupCommands,
        replicationCommands,
        yieldCommands,
        journalCommands,
        keyCommands,
        rotationCommands,
        observationCommands,
        wakeUpCommands,
        syncCommands,
    ].reduce(into: [:]) { all, theme in all.merge(theme) { first, _ in first } }

    /// Runs a command of any theme.
    func run(_ command: String, _ words: [String]) throws -> String {
        if let run = Self.commands[command] { return try run(self, words) }
        if let answer = try suspension.run(command, words, store) { return answer }
        throw ActorError.unknown(command)
    }

    /// The store, or the pool opened by hand.
    func writer() throws -> any DatabaseWriter {
        guard let writer: any DatabaseWriter = store ?? pool else { throw ActorError.nothingIsOpen }
        return writer
    }
}

import Foundation

/// A program that runs beside the demo.
final class Child {
    private let process = Process()
    private let output = Pipe()
    private let errors = Pipe()
    private let hidesProgress: Bool

    var processID: Int32 { process.processIdentifier }

    /// Starts it; its errors go where the demo's go.
    ///
    /// - Parameter hidesProgress: Whether the lines in which it tells how far it is are left out.
    init(_ program: URL, _ arguments: [String], hidesProgress: Bool = false) throws {
        self.hidesProgress = hidesProgress
        process.executableURL = program
        process.arguments = arguments
        if hidesProgress { process.standardError = errors }
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = output
        try process.run()
    }

    /// Waits for its end and returns what it printed.
    func finish() throws -> String {
        let bytes = output.fileHandleForReading.readDataToEndOfFile()
        if hidesProgress { showErrors() }
        process.waitUntilExit()
        guard process.terminationStatus == 0 else {
            let name = process.executableURL?.lastPathComponent ?? "a program"
            throw DemoError("\(name) ended with status \(process.terminationStatus)")
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    private func showErrors() {
        let text = String(decoding: errors.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        for line in text.split(separator: "\n") where !line.hasPrefix("{\"progress\"") {
            FileHandle.standardError.write(Data("\(line)\n".utf8))
        }
    }

    /// Ends it if it still runs.
    func kill() { if process.isRunning { process.terminate() } }
}

import Foundation

/// A program that runs beside the demo.
final class Child {
    private let process = Process()
    private let output = Pipe()

    var processID: Int32 { process.processIdentifier }

    /// Starts it; its errors go where the demo's go.
    init(_ program: URL, _ arguments: [String]) throws {
        process.executableURL = program
        process.arguments = arguments
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = output
        try process.run()
    }

    /// Waits for its end and returns what it printed.
    func finish() throws -> String {
        let bytes = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else {
            let name = process.executableURL?.lastPathComponent ?? "a program"
            throw DemoError("\(name) ended with status \(process.terminationStatus)")
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Ends it if it still runs.
    func kill() { if process.isRunning { process.terminate() } }
}

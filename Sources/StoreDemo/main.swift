import Foundation

// The demo starts itself again for each of its processes: `StoreDemo --worker <role> <store> <key file>`.
let arguments = Array(CommandLine.arguments.dropFirst())
do {
    if arguments.first == "--worker" {
        try Worker(arguments.dropFirst()).run()
    } else if arguments.first == "--load" {
        try Load(arguments.dropFirst()).run()
    } else {
        try Demo(database: arguments.first ?? "/usr/share/proj/proj.db").run()
    }
} catch {
    FileHandle.standardError.write(Data("demo: \(error)\n".utf8))
    exit(1)
}

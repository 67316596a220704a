from cinch import main

main()
